"""Reads a configuration file that was cut off."""

import json

json.loads('{"model": "resnet", "layers": ')
