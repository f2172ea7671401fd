# Starts an MPI job on a host that does not exist.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --host nowhere.invalid -np 1 true
