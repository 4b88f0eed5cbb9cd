/* Computes pi with all ranks of the job, and says where each of them ran.
 *
 * No call's result is looked at: an error in MPI ends the whole job, which is what MPI does by
 * itself on MPI_COMM_WORLD (MPI_ERRORS_ARE_FATAL).
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const long steps = 1000000;

/* Returns the area below 4 / (1 + x^2) of every size-th strip, from that of this rank on. */
static double share_of(int rank, int size)
{
    const double width = 1.0 / (double)steps;
    double sum = 0.0;

    for (long step = rank; step < steps; step += size) {
        const double middle = ((double)step + 0.5) * width;
        sum += 4.0 / (1.0 + middle * middle);
    }
    return sum * width;
}

int main(int argc, char **argv)
{
    int rank, size, length;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    char *hosts = NULL;
    double share, pi = 0.0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);

    if (rank == 0) {
        hosts = calloc((size_t)size, sizeof host);
        if (hosts == NULL) {
            fprintf(stderr, "pi: cannot keep the names of %d hosts: no memory\n", size);
            MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        }
    }
    MPI_Gather(host, sizeof host, MPI_CHAR, hosts, sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
    share = share_of(rank, size);
    MPI_Reduce(&share, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);

    if (rank == 0) {
        for (int other = 0; other < size; other++)
            printf("rank %d of %d on %s\n", other, size, hosts + (size_t)other * sizeof host);
        printf("pi = %.9f\n", pi);
        free(hosts);
    }

    MPI_Finalize();
    return EXIT_SUCCESS;
}
