/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: rank_positions BUNDLE IMAGES LABELS STEPS STATE OUT RANKS|mpi [new]
 *
 * Trains a bundle of digits on RANKS ranks of this host, or as a rank of an MPI job; with
 * --new-data if the last word is given. Each rank writes the positions at its begin and its end to
 * OUT.<rank>, as two lines of numbers: only the position of the first rank is saved, but every rank
 * draws its samples by its own position.
 */
#include "runtime/base/result.h"
#include "tessera/tessera.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const char *bundle, *state;
    tsr_binding data[2];
    uint64_t steps;
    const char *out;
    bool new_data;
    FILE *file; /* OUT.<rank> */
} run;

static void write_position(run *self, const tsr_position *p) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&p->data, hex);
    fprintf(self->file,
            "seed %" PRIu64 " step %" PRIu64 " sample %" PRIu64 " virtual %" PRIu64
            " shuffle %" PRIu64 " base %" PRIu64 " base_sample %" PRIu64 " rows %" PRIu64
            " data %s\n",
            p->seed, p->step, p->sample, p->virtual_ranks, p->shuffle_version, p->epoch_base,
            p->epoch_base_sample, p->rows, hex);
}

static void begun(void *user, const tsr_recovery *recovery, const tsr_position *position) {
    (void)recovery;
    write_position(user, position);
}

static tsr_result train(tsr_ctx *ctx, tsr_transport *transport, run *self) {
    const tsr_model_options open = {
        .size_bytes = sizeof open, .threads = 1, .transport = transport};
    const tsr_train_options options = {.size_bytes = sizeof options,
                                       .steps = self->steps,
                                       .data = self->data,
                                       .data_count = 2,
                                       .state_directory = self->state,
                                       .new_data = self->new_data,
                                       .callbacks = {.user = self},
                                       .begun = begun};
    tsr_model *model = NULL;
    tsr_train_summary summary;
    TRY(ctx, tsr_model_open(ctx, self->bundle, &open, &model));
    tsr_result result = tsr_train(ctx, model, &options, &summary);
    if (!result.code) write_position(self, &summary.position);
    tsr_model_close(ctx, model);
    return result;
}

static tsr_result run_rank(tsr_ctx *ctx, tsr_transport *transport, void *user) {
    run self = *(run *)user;
    char path[4096];
    snprintf(path, sizeof path, "%s.%u", self.out, tsr_rank_get_number(transport));
    self.file = fopen(path, "w");
    if (!self.file) FAIL(ctx, TSR_IO, "cannot write '%s'", path);
    tsr_result result = train(ctx, transport, &self);
    fclose(self.file);
    return result;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    if (argc < 8) return fprintf(stderr, "%d words; expected at least 8\n", argc), 2;
    run self = {.bundle = argv[1],
                .state = argv[5],
                .data = {{"images", argv[2]}, {"labels", argv[3]}},
                .steps = strtoull(argv[4], NULL, 10),
                .out = argv[6],
                .new_data = argc > 8};
    const tsr_ranks_options options = {.size_bytes = sizeof options,
                                       .rank_count = (uint32_t)strtoul(argv[7], NULL, 10)};
    bool in_job = strncmp(argv[7], "mpi:", 4) == 0; /* then the path of the module */
    const tsr_job_options job = {
        .size_bytes = sizeof job, .transport = TSR_JOB_MPI, .mpi_module = argv[7] + 4};
    tsr_result result = in_job ? tsr_ranks_join_job(&ctx, &job, run_rank, &self)
                               : tsr_ranks_run(&ctx, &options, run_rank, &self);
    if (result.code) fprintf(stderr, "rank_positions: error: %s\n", ctx.error.text);
    return result.code;
}
