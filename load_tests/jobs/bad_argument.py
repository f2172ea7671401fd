"""Is started with an option that it does not have."""

import argparse

parser = argparse.ArgumentParser("train.py")
parser.add_argument("--lr", type=float)
parser.parse_args(["--learning-rate", "0.1"])
