#!/bin/sh
# What Acme's CI runs, from this folder; no device is needed.
set -eu
pip install '.[test]'
mypy
basedpyright
pytest
kvproto check --platform acme --html report.html
