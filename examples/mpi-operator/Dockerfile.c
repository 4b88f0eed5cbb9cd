# The user's image for a program in C: compiled in the builder image, of which nothing but the
# program itself comes along.
#   podman build -f examples/mpi-operator/Dockerfile.c -t mpi-agent/pi:latest examples/mpi-operator
# For another MPI:
#   --build-arg BASE=mpi-agent/mpich:4 --build-arg BUILDER=mpi-agent/mpich:4-builder
#   --build-arg BASE=mpi-agent/intel:2021 --build-arg BUILDER=mpi-agent/intel:2021-builder
ARG BASE=mpi-agent/openmpi:5
ARG BUILDER=mpi-agent/openmpi:5-builder

FROM ${BUILDER} AS build
COPY pi.c /src/pi.c
RUN mpicc -O2 -o /pi /src/pi.c -lm

FROM ${BASE}
COPY --from=build /pi /home/mpiuser/pi
