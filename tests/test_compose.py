"""docker-compose.yml and Dockerfile: our own strict check of what we rely on (it is not the compose schema, and no engine
runs here): known keys only, and every name in them is one that the other files have.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli.main import COMMANDS
from services.health import PORTS, serve
from services.settings import PREFIX, Settings
from services.stack import free_port
from services.stack.kafka import version
from services.stack.postgres import programs

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
AGENTS = ("scanner", "attributor", "recorder")
ONE_SHOTS = ("migrate", "topics")
DURATION = re.compile(r"[1-9]\d*s")


def settings_of(service: str) -> dict[str, str]:
    return {key: value for key, value in SERVICES[service]["environment"].items() if key.startswith(PREFIX)}


def dockerfile(instruction: str) -> Iterator[str]:
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith(instruction + " "):
            yield line.removeprefix(instruction + " ")


def test_only_known_keys_are_used() -> None:
    """A misspelt key would be refused by Compose; here it fails first."""
    known = {"image", "build", "command", "environment", "restart", "stop_grace_period", "depends_on", "healthcheck"}
    known |= {"ports", "volumes"}

    assert {"name", "services", "volumes"} == {key for key in COMPOSE if not key.startswith("x-")}
    assert {} == {name: set(service) - known for name, service in SERVICES.items() if set(service) - known}
    assert {*AGENTS, *ONE_SHOTS, "kafka", "postgres"} == set(SERVICES)


def test_environment_values_are_strings() -> None:
    """YAML would turn an unquoted `false` or `1` into something that Compose refuses or prints otherwise."""
    values = [value for service in SERVICES.values() for value in service["environment"].values()]

    assert [] == [value for value in values if not isinstance(value, str)]


def test_every_exitsign_variable_is_a_setting() -> None:
    """A variable that no setting reads would be silently without effect."""
    names = {PREFIX + name.upper() for name in Settings.model_fields}

    assert {} == {name: set(settings_of(name)) - names for name in SERVICES if set(settings_of(name)) - names}


@pytest.mark.parametrize("service", [*AGENTS, *ONE_SHOTS])
def test_agents_are_pointed_at_the_services(service: str) -> None:
    """Kafka is reached on its inside listener, Postgres with the user, password and database that it is made with."""
    told = settings_of(service)
    postgres = SERVICES["postgres"]["environment"]
    user, password, name = (postgres[f"POSTGRES_{part}"] for part in ("USER", "PASSWORD", "DB"))

    assert f"INSIDE://{told['EXITSIGN_KAFKA']}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"postgresql://{user}:{password}@postgres:5432/{name}" == told["EXITSIGN_POSTGRES"]


@pytest.mark.parametrize("agent", AGENTS)
def test_each_agent_runs_itself_on_its_own_port(agent: str) -> None:
    """The command, the port in the environment and the published port are those of this agent."""
    port = PORTS[agent]

    assert ["run", agent] == SERVICES[agent]["command"]
    assert str(port) == settings_of(agent)["EXITSIGN_METRICS_PORT"]
    assert [f"127.0.0.1:{port}:{port}"] == SERVICES[agent]["ports"]


def test_every_command_exists() -> None:
    """The first word of each command is one of `exitsign`'s; the one-shots are the migration and the topics."""
    words = {name: SERVICES[name]["command"] for name in (*AGENTS, *ONE_SHOTS)}

    assert [] == [name for name, command in words.items() if command[0] not in COMMANDS]
    assert [["db", "upgrade"], ["topics", "create"]] == [words[name] for name in ONE_SHOTS]


def test_ports_are_published_on_loopback_only() -> None:
    """Neither Kafka nor Postgres is offered to the network by default."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert [] == [port for port in published if not re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)]


def test_dependencies_can_be_met() -> None:
    """Each condition fits its service: healthy needs a health check, completed needs a one-shot."""
    for service in SERVICES.values():
        for name, wanted in service.get("depends_on", {}).items():
            fits = {"service_healthy": "healthcheck" in SERVICES[name]}
            fits["service_completed_successfully"] = name in ONE_SHOTS
            assert ["condition"] == list(wanted)
            assert fits[wanted["condition"]]


def test_advice_does_not_wait_for_the_database() -> None:
    """Scanner and attributor start without Postgres; the recorder waits for its tables."""
    assert ["topics"] == list(SERVICES["scanner"]["depends_on"]) == list(SERVICES["attributor"]["depends_on"])
    assert ["kafka"] == list(SERVICES["topics"]["depends_on"])
    assert {"topics", "migrate"} == set(SERVICES["recorder"]["depends_on"])


def test_volumes_are_declared() -> None:
    """What must survive `docker compose down` lies in a declared volume."""
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}

    assert {"kafka", "postgres"} == mounted == set(COMPOSE["volumes"])
    assert SERVICES["kafka"]["volumes"] == [f"kafka:{SERVICES['kafka']['environment']['KAFKA_LOG_DIRS']}"]


def test_times_have_their_unit() -> None:
    """A number without a unit is refused by Compose."""
    times = [service["stop_grace_period"] for service in SERVICES.values() if "stop_grace_period" in service]
    for service in SERVICES.values():
        check = service.get("healthcheck", {})
        times += [check[key] for key in ("interval", "timeout", "start_period") if key in check]

    assert len(times) > 10
    assert [] == [time for time in times if not DURATION.fullmatch(time)]


def test_agents_stop_before_docker_kills_them() -> None:
    """Docker waits longer for an agent than the agent does for itself."""
    patience_s = {int(SERVICES[agent]["stop_grace_period"].rstrip("s")) for agent in AGENTS}

    assert min(patience_s) > Settings.model_fields["shutdown_s"].default


def test_images_are_the_native_versions() -> None:
    """Docker and the native stack run the same Kafka and the same major PostgreSQL."""
    said = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    major = re.search(r"(\d+)\.", said)
    assert major

    assert f"apache/kafka:{version()}" == SERVICES["kafka"]["image"]
    assert f"postgres:{major[1]}" == SERVICES["postgres"]["image"]


@pytest.mark.parametrize(("healthy", "status"), [(True, 0), (False, 1)])
def test_the_health_check_asks_the_agent(healthy: bool, status: int) -> None:
    """The check's own command passes when /healthz says healthy, and fails when it does not."""
    port = free_port()
    server = serve("scanner", "127.0.0.1", port, lambda: {"healthy": healthy})
    command = SERVICES["scanner"]["healthcheck"]["test"]
    environ = {**os.environ, "EXITSIGN_METRICS_PORT": str(port)}
    try:
        done = subprocess.run([sys.executable, *command[2:]], env=environ, capture_output=True, timeout=60, check=False)
    finally:
        threading.Thread(target=server.shutdown).start()
        server.server_close()

    assert ["CMD", "python", "-c"] == command[:3]
    assert status == done.returncode


def test_the_image_gets_every_package() -> None:
    """The Dockerfile copies what the wheel packages, from paths that exist and that .dockerignore lets in."""
    sources = [word for line in dockerfile("COPY") if "--from" not in line for word in line.split()[:-1]]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert {"classifiers", "services", "signatures", "migrations", "pyproject.toml"} <= set(sources)
    assert [] == [source for source in sources if not (ROOT / source).exists()]
    assert allowed == set(sources)


def test_the_image_runs_exitsign_without_root() -> None:
    """The container is the command, as a user of its own."""
    assert ['["exitsign"]'] == list(dockerfile("ENTRYPOINT"))
    assert ["exitsign"] == list(dockerfile("USER"))
