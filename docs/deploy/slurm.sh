#!/bin/bash
# One SLURM job brings up one tier on one node; a gateway where all nodes can be reached routes over them.
#
#   sbatch --gres=gpu:a100:8 docs/deploy/slurm.sh launch-large.yaml      # in the end: endpoints/large.yaml
#   sbatch --gres=gpu:a30:2  docs/deploy/slurm.sh launch-small.yaml      # in the end: endpoints/small.yaml
#
# and, once the files are there, on a login or CPU node:
#
#   { echo instances:; tail -qn +2 endpoints/*.yaml; } > endpoints.yaml
#   rbx serve --pool experiments/pools/mine.yaml --endpoints endpoints.yaml
#
# A launch file names a pool file with its one tier and `launcher: {kind: local, ...}`; mine.yaml holds all
# those tiers. SLURM sets CUDA_VISIBLE_DEVICES, and rbx hands out these devices only. The servers listen on the
# node's address without a key: whoever can reach the node can use them. SIGTERM ends them all.
#SBATCH --job-name=rbx-tier
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@60
set -euo pipefail

launch=$1
name=$(basename "$launch" .yaml)
name=${name#launch-}
mkdir -p endpoints
rm -f "endpoints/$name.yaml"
exec rbx launch "$launch" --no-gateway --logs "results/launch/$name" \
    --endpoints-out "endpoints/$name.yaml" --set "launcher.host=$(hostname -i | cut -d' ' -f1)"
