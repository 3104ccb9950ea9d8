/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: simulate [--first SEED] [--count N] [--ranks N] [--out FOLDER] [--mutant NAME]
 *
 * Runs the product's coordinator and 2 to 64 ranks in a world of faults, one run per seed. Prints a
 * line for each run; writes the history to <seed>.log and the contents of the disk to <seed>/ in
 * FOLDER. Exits with 1 if a run made no progress after its faults had ended, or showed bytes of a
 * wrong step.
 */
#include "tests/simulate/atlas.h"
#include "tests/simulate/mutant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t faults_ns = 2 * SIM_S, grace_ns = 20 * SIM_S;
enum { PROGRESS = 3 }; /* generations that must follow after the faults have ended */

typedef struct arguments {
    uint64_t first, count;
    uint32_t ranks;
    const char *out;
} arguments;

/* ---- the output of a run ---- */

static void must(bool good, const char *what, const char *path) {
    if (good) return;
    fprintf(stderr, "simulate: cannot %s '%s': %s\n", what, path, strerror(errno));
    exit(7);
}

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    must(file != NULL, "write", path);
    must(!size || fwrite(bytes, 1, size, file) == size, "write", path);
    must(fclose(file) == 0, "write", path);
}

typedef struct dump {
    fault_io *disk;
    char folder[1024];
} dump;

static void dump_file(void *user, const char *path) {
    const dump *d = user;
    char target[2048];
    size_t size = 0;
    int length = snprintf(target, sizeof target, "%s%s", d->folder, path);
    TSR_ASSERT(length > 0 && (size_t)length < sizeof target);
    for (char *at = target + strlen(d->folder); (at = strchr(at + 1, '/'));) {
        *at = 0;
        must(mkdir(target, 0755) == 0 || errno == EEXIST, "create", target);
        *at = '/';
    }
    const uint8_t *bytes = fault_io_bytes(d->disk, path, &size);
    write_file(target, bytes, size);
}

/* A generation without bytes may be an empty directory. */
static int dump_folder(void *user, const char *name) {
    char target[2048];
    snprintf(target, sizeof target, "%s/s/gen/%s", ((const dump *)user)->folder, name);
    if (name[0] != '.' && mkdir(target, 0755) != 0)
        must(errno == EEXIST || errno == ENOENT, "create", target);
    return 0;
}

static void leave(const sim_world *world, const char *out, uint64_t seed) {
    dump d = {.disk = world->disk};
    char path[1024];
    snprintf(d.folder, sizeof d.folder, "%s/%" PRIu64, out, seed);
    must(mkdir(d.folder, 0755) == 0 || errno == EEXIST, "create", d.folder);
    snprintf(path, sizeof path, "%s/%" PRIu64 ".log", out, seed);
    write_file(path, world->log, world->log_bytes);
    fault_io_each_file(world->disk, dump_file, &d);
    const tsr_io *io = fault_io_table(world->disk);
    int gens = io->open(io->self, TSR_IO_CWD, "/s/gen", O_RDONLY | O_DIRECTORY, 0);
    if (gens < 0) return;
    must(io->list(io->self, gens, dump_folder, &d) >= 0, "list", "/s/gen");
    io->close(io->self, gens);
}

/* ---- running ---- */

static uint64_t fingerprint(const sim_world *world) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < world->log_bytes; i++)
        hash = (hash ^ (uint8_t)world->log[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void print_line(const sim_job *job, const sim_atlas *atlas, uint64_t seed) {
    const sim_world *world = job->world;
    printf("seed %" PRIu64 " ranks %u keep %u: %" PRIu64 " starts, %" PRIu64
           " acknowledged, %" PRIu64 " operations, %" PRIu64 " messages, %" PRIu64 " lost, %" PRIu64
           " killed, %" PRIu64 " disk faults, log %016" PRIx64 ";",
           seed, job->rank_count, job->keep, job->started_count, job->acknowledged_count,
           world->operation_count, world->message_count, world->lost_count, world->kill_count,
           world->error_count, fingerprint(world));
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        if (atlas->counts[i])
            printf(" %s %" PRIu64, sim_fault_name((sim_fault)i), atlas->counts[i]);
    printf("%s%s\n", world->failure ? "; FAILED: " : "", world->failure ? world->failure : "");
    fflush(stdout);
}

static bool run_seed(const arguments *a, uint64_t seed) {
    sim_world *world = sim_world_create(seed);
    sim_job job = {.world = world};
    sim_atlas atlas = {0};
    sim_atlas_draw(&atlas, &job, a->ranks);
    sim_job_start(&job);
    sim_atlas_start(&atlas);
    sim_run(world, faults_ns);
    sim_atlas_end(&atlas);
    uint64_t before = job.acknowledged_count;
    for (uint64_t t = faults_ns;
         t < faults_ns + grace_ns && !world->stopped && job.acknowledged_count < before + PROGRESS;)
        sim_run(world, t += SIM_S / 10);
    if (job.acknowledged_count < before + PROGRESS)
        sim_fail(world, "no progress when all faults have ended");
    print_line(&job, &atlas, seed);
    if (a->out) leave(world, a->out, seed);
    bool good = !world->failure;
    sim_world_destroy(world);
    sim_job_finish(&job);
    return good;
}

static uint64_t number(const char *flag, const char *text) {
    char *end;
    errno = 0;
    uint64_t value = text ? strtoull(text, &end, 10) : 0;
    if (!text || !*text || *end || errno) {
        fprintf(stderr, "simulate: %s needs a number\n", flag);
        exit(6);
    }
    return value;
}

static arguments parse(int count, char **texts) {
    arguments a = {.first = 1, .count = 1};
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? texts[i + 1] : NULL;
        if (strcmp(texts[i], "--first") == 0)
            a.first = number(texts[i], value);
        else if (strcmp(texts[i], "--count") == 0)
            a.count = number(texts[i], value);
        else if (strcmp(texts[i], "--ranks") == 0)
            a.ranks = (uint32_t)number(texts[i], value);
        else if (strcmp(texts[i], "--out") == 0 && value)
            a.out = value;
        else if (strcmp(texts[i], "--mutant") == 0 && value) {
            if (!sim_mutant_choose(value)) {
                fprintf(stderr, "simulate: there is no mutant '%s' here\n", value);
                exit(77);
            }
        } else {
            fprintf(stderr, "simulate: unknown argument '%s'\n", texts[i]);
            exit(6);
        }
    }
    if (a.ranks > SIM_RANKS_MAX) {
        fprintf(stderr, "simulate: %u ranks; at most %d\n", a.ranks, SIM_RANKS_MAX);
        exit(6);
    }
    return a;
}

int main(int count, char **texts) {
    const arguments a = parse(count, texts);
    bool good = true;
    for (uint64_t i = 0; i < a.count; i++) good &= run_seed(&a, a.first + i);
    return good ? 0 : 1;
}
