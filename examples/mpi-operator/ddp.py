"""Trains a line with PyTorch's DistributedDataParallel, and says where each rank ran.

PyTorch's env:// rendezvous reads five variables. MASTER_ADDR, MASTER_PORT and WORLD_SIZE are the
same for all ranks, and the agent sets them; RANK and LOCAL_RANK only the MPI's launcher can tell,
and it tells them by names of its own. NCCL is used if every rank of the job has a GPU, else Gloo,
and no GPU at all: a backend belongs to the whole job, so the ranks first tell each other by Gloo.
"""

import os
import socket
from collections.abc import MutableMapping

STEPS = 200
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
LOCAL_RANK_VARIABLES = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""Of Open MPI, and of the Hydra in MPICH and Intel MPI."""


def take_ranks_from_the_launcher(environ: MutableMapping[str, str]) -> None:
    """Set RANK and LOCAL_RANK as PyTorch reads them; torchrun's own stay."""
    for wanted, names in (("RANK", RANK_VARIABLES), ("LOCAL_RANK", LOCAL_RANK_VARIABLES)):
        told = next((environ[name] for name in names if name in environ), None)
        if told is not None:
            environ[wanted] = told
        elif wanted not in environ:
            raise SystemExit(f"ddp.py: no launcher told {wanted}: start it with mpirun")


def main() -> None:
    take_ranks_from_the_launcher(os.environ)
    import torch
    import torch.distributed as dist

    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    have_gpu = [False] * size
    dist.all_gather_object(have_gpu, local_rank < torch.cuda.device_count())
    if all(have_gpu):
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if all(have_gpu) else torch.device("cpu")
    group = dist.new_group(backend="nccl" if all(have_gpu) else "gloo")

    line = torch.nn.Linear(1, 1).to(device)
    model = torch.nn.parallel.DistributedDataParallel(line, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    torch.manual_seed(rank)  # each rank has data of its own, and all end with one line
    for _ in range(STEPS):
        x = torch.rand(64, 1, device=device)
        loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    places = [None] * size
    dist.all_gather_object(places, (socket.gethostname(), str(device)))
    if rank == 0:
        for number, (host, used) in enumerate(places):
            print(f"rank {number} of {size} on {host} ({used})")
        slope, start = model.module.weight.item(), model.module.bias.item()
        print(f"y = {slope:.2f} x + {start:.2f} by {dist.get_backend(group)}", flush=True)
    dist.barrier()  # nobody leaves while another still talks to him
    del model, loss, optimizer  # their group goes last, or Gloo may wait for ever
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
