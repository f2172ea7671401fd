# exitsign: every agent and command is this one image; `docker run exitsign --help`.
FROM python:3.11-slim AS build
WORKDIR /src
# The lock pins what pyproject.toml asks for; the tools and the native stack in it are left out.
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY classifiers classifiers
COPY services services
COPY signatures signatures
COPY migrations migrations
RUN python -m venv /opt/exitsign \
 && /opt/exitsign/bin/pip install --no-cache-dir --disable-pip-version-check --constraint requirements.lock .

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/exitsign exitsign
COPY --from=build /opt/exitsign /opt/exitsign
ENV PATH=/opt/exitsign/bin:$PATH PYTHONUNBUFFERED=1
USER exitsign
WORKDIR /var/lib/exitsign
ENTRYPOINT ["exitsign"]
CMD ["--help"]
