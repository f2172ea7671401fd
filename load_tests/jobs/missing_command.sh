# Calls a tool that is not on PATH.
set -e
echo "preparing the environment"
train-the-model --epochs 3
