"""Ranks that do not reach each other, outside of NCCL and fabrics."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.PROGRAM_FAILED

ROWS = (
    row(
        "mpi-peers-unreachable",
        "At least one pair of MPI processes are unable to reach each other",
        stacks="Open MPI 4, Open MPI 5",
        verdict=_FAILED,
        cause="no transport of Open MPI connects two of the ranks",
        remedy="leave btl and pml to mpi-agent, or allow tcp and sm (vader in Open MPI 4) too",
        source="Open MPI 5.0.11 with --mca btl self, measured 2026-11; ompi#1501",
    ),
    row(
        "address-family-unsupported",
        "Socket creation failed : Address family not supported by protocol",
        stacks="NCCL",
        verdict=_FAILED,
        cause="NCCL was given an IPv6 or IPv4 address where the container has only the other",
        remedy="give all pods of the job the same IP families (ipFamilies of the cluster)",
        source="nccl#210, NCCL 2.4",
    ),
    row(
        "mpi-component-missing",
        "Framework: {framework}\nComponent: {component}",
        "No components were able to be opened in the {framework} framework.",
        stacks="Open MPI 4, Open MPI 5",
        verdict=_FAILED,
        cause='this Open MPI has no usable component[ "{component}"] of {framework}',
        remedy="take the parameter that asks for it out of the command line and OMPI_MCA_*",
        source="Open MPI 5.0.11 with --mca btl nonexist, measured 2026-11; ompi#6795, ompi#11669",
    ),
    row(
        "mpi-transports-differ",
        "selected pml {mine}, but peer {...} on {host} selected pml {theirs}",
        stacks="Open MPI 4",
        verdict=_FAILED,
        cause='ranks chose different transports: {theirs} on "{host}", {mine} elsewhere',
        remedy="give every worker the same devices and image, or name one (--mca pml ob1 or ucx)",
        source="ucx#4224, Open MPI 4.1.1",
    ),
    row(
        "mpi-connect-failed",
        "connect() to {address} failed",
        stacks="Open MPI 4, Open MPI 5",
        kind=Kind.SIGN,
        cause="a rank could not connect to the address {address} of another",
        remedy="name the network that all workers share (--mca btl_tcp_if_include CIDR), and allow"
        " connections between workers",
        source="Open MPI 4.1.4, measured 2026-11; ompi#2168",
    ),
    row(
        "mpi-peer-gone",
        "An MPI communication peer process has unexpectedly disconnected.",
        "An error occurred in Socket closed",
        stacks="Open MPI 4, Open MPI 5",
        kind=Kind.CONSEQUENCE,
        cause="a rank that others were talking to was gone",
        remedy="look for the rank that ended first",
        source="Open MPI 4.1.4 and 5.0.11, measured 2026-11",
    ),
    row(
        "gloo-mesh-failed",
        "Gloo connectFullMesh failed with",
        stacks="PyTorch, Gloo",
        verdict=_FAILED,
        cause="the ranks cannot all connect to each other by Gloo",
        remedy="set GLOO_SOCKET_IFNAME to the pods' interface, and allow connections between"
        " workers on all ports",
        source="gpustack#2125, occlum#1604",
    ),
    row(
        "gloo-timeout",
        "Timed out waiting {duration}ms for {direction} operation to complete",
        stacks="PyTorch, Gloo",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause="a rank waited {duration} ms for another in a collective and gave up",
        remedy="look for a rank that ended, or that does more work between two collectives",
        source="DEIMv2#65, detectron2#3243",
    ),
    row(
        "gloo-peer-gone",
        "gloo/transport/tcp/pair.cc:{}] Connection closed by peer {peer}",
        "gloo/transport/tcp/pair.cc:{}] Read error {peer}: Connection reset by peer",
        stacks="PyTorch, Gloo",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="the rank at {peer} was gone while another talked to it",
        remedy="look for the rank that ended first",
        source="Retrieval-based-Voice-Conversion-WebUI#1882",
    ),
    row(
        "torch-store-timeout",
        "The client socket has timed out after {}ms while trying to connect to ({host}, {port})",
        stacks="PyTorch",
        verdict=_FAILED,
        cause='rank 0 did not answer on port {port} of "{host}"',
        remedy="set MASTER_ADDR to the host of rank 0 (mpi-agent does), and allow its port between"
        " workers",
        source="CPPO#6, vllm#19670",
    ),
    row(
        "port-taken",
        "The server socket has failed to bind to {address} (errno: 98",
        "OSError: [Errno 98] Address already in use",
        stacks="PyTorch, Python",
        verdict=_FAILED,
        cause="another process has the port that the program wants[: {address}]",
        remedy="choose another MASTER_PORT, and see that no rank of an earlier run is left",
        source="FastVideo#575, torchtune#392; Python 3.11, measured 2026-11",
    ),
    row(
        "horovod-no-interface",
        "was unable to connect to {service...} on any of the following addresses:",
        stacks="Horovod",
        verdict=Verdict.LAUNCH_FAILED,
        cause="horovodrun cannot reach its {service} on any interface that all hosts share",
        remedy="name one (--network-interfaces), and allow connections between the pods on all"
        " ports",
        source="horovod#2432, horovod#994",
    ),
    row(
        "horovod-rank-behind",
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of",
        stacks="Horovod",
        kind=Kind.CONSEQUENCE,
        cause="some ranks did not come to a collective that others wait in",
        remedy="the output lists the missing ranks: see what they do, and that all ranks do the"
        " same number of steps",
        source="horovod#367",
    ),
    row(
        "horovod-shut-down",
        "Horovod has been shut down.",
        stacks="Horovod",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="Horovod ended everywhere because one rank failed or finished early",
        remedy="look for the first exception before it",
        source="horovod#3412",
    ),
)
