#!/usr/bin/env bash
# Run every experiment, one after the other.
set -eu
for experiment in expe/*.yaml; do
    robin "$experiment"
done
