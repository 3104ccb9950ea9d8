/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the time of a call of programs with one entry `f`, and of the FMA peak.
 *
 *     model_bench --aot=PATH [--against=PATH] [--folder=DIR] [--threads=N] [--rounds=N]
 *                 [--cpu=NAME] [--numerics=NAME] [--own-time] FILE.mlir...
 *
 * With --own-time one thread's seconds are CPU time, for a machine that has other work: then use
 * the minimum. --against is another tessera-aot, for example of an earlier commit: each file is
 * built by both, and a round calls both, first the one and in the next round first the other.
 * Float inputs are random, others zero. Prints one JSON object: for each file its name, seconds of
 * building (including the start of the compiler) and of a call (the median of rounds that
 * alternate, and the minimum), bytes of the workspace, launches, and for --against its seconds and
 * the median of the rounds' ratios, ours / theirs; and the peak in operations per second (medians).
 */
#include "bench/kernels/measure.h"
#include "bench/kernels/program.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 16 };

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = 0;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) ||
        !(text = malloc((size_t)size + 1)) || fread(text, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(5);
    }
    text[size] = 0;
    fclose(file);
    return text;
}

typedef struct contest {
    const char *name;        /* without folders; borrowed from the arguments */
    bench_program *sides[2]; /* built by --aot, and by --against or NULL */
    double seconds[2][MEASURE_ROUNDS_MAX];
} contest;

typedef struct bench {
    bench_options options;
    const char *against; /* NULL: one compiler */
    int rounds, count;
    bool own_time;
    contest contests[FILES_MAX];
    double peak[MEASURE_ROUNDS_MAX];
} bench;

/* Returns the index of the first file among the arguments, or 0 if they are wrong. */
static int read_arguments(bench *b, int argc, char **argv) {
    static const struct option options[] = {
        {"aot", 1, NULL, 'a'},     {"folder", 1, NULL, 'f'},   {"threads", 1, NULL, 't'},
        {"rounds", 1, NULL, 'r'},  {"cpu", 1, NULL, 'c'},      {"numerics", 1, NULL, 'n'},
        {"against", 1, NULL, 'g'}, {"own-time", 0, NULL, 'o'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'a') b->options.aot = optarg;
        if (option == 'f') b->options.folder = optarg;
        if (option == 't') b->options.threads = (unsigned)atoi(optarg);
        if (option == 'r') b->rounds = atoi(optarg);
        if (option == 'c') b->options.cpu = optarg;
        if (option == 'n') b->options.numerics = optarg;
        if (option == 'g') b->against = optarg;
        if (option == 'o') b->own_time = true;
        if (option == '?') return 0;
    }
    b->count = argc - optind;
    bool valid = b->options.aot && b->options.threads && b->rounds >= 1 &&
                 b->rounds <= MEASURE_ROUNDS_MAX && b->count >= 1 && b->count <= FILES_MAX;
    return valid ? optind : 0;
}

static void open_contest(const bench *b, const char *path, contest *out_contest) {
    const char *slash = strrchr(path, '/');
    char *text = read_text(path);
    *out_contest = (contest){.name = slash ? slash + 1 : path};
    for (int side = 0; side < 2; side++) {
        bench_options options = b->options;
        if (side) options.aot = b->against;
        if (!options.aot) continue;
        out_contest->sides[side] = bench_program_open(&options, text);
        bench_program_fill(out_contest->sides[side], 1);
    }
    free(text);
}

static void measure_round(bench *b, int round) {
    b->peak[round] = measure_peak(b->options.threads);
    for (int i = 0; i < b->count; i++)
        for (int turn = 0; turn < 2; turn++) {
            contest *c = &b->contests[i];
            int side = (turn + round) % 2;
            if (!c->sides[side]) continue;
            if (b->options.threads > 1) measure_wait_idle();
            c->seconds[side][round] = measure_call(bench_program_run, c->sides[side], 0.05);
        }
}

static void print_contest(const bench *b, contest *c) {
    const bench_program *ours = c->sides[0];
    double least = INFINITY, ratios[MEASURE_ROUNDS_MAX];
    for (int r = 0; r < b->rounds; r++) {
        least = fmin(least, c->seconds[0][r]);
        ratios[r] = c->seconds[0][r] / c->seconds[1][r];
    }
    printf(", \"%s\": {\"build\": %.3f, \"seconds\": %.6g, \"least\": %.6g, \"workspace\": %zu, "
           "\"launches\": %zu",
           c->name, bench_program_compile_seconds(ours),
           measure_median(c->seconds[0], (size_t)b->rounds), least, bench_program_workspace(ours),
           bench_program_launches(ours));
    if (c->sides[1])
        printf(", \"against\": %.6g, \"ratio\": %.4f",
               measure_median(c->seconds[1], (size_t)b->rounds),
               measure_median(ratios, (size_t)b->rounds));
    printf("}");
    for (int side = 0; side < 2; side++)
        if (c->sides[side]) bench_program_close(c->sides[side]);
}

int main(int argc, char **argv) {
    static bench b = {.options = {.folder = "/tmp", .threads = 1}, .rounds = 7};
    int first = read_arguments(&b, argc, argv);
    if (!first) {
        fprintf(stderr, "usage: see the head of model_bench.c\n");
        return 2;
    }
    if (b.own_time && b.options.threads == 1) measure_count_own_time();
    if (!measure_pin(b.options.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    for (int i = 0; i < b.count; i++) open_contest(&b, argv[first + i], &b.contests[i]);
    for (int r = 0; r < b.rounds; r++) measure_round(&b, r);
    printf("{\"threads\": %u, \"peak\": %.4g", b.options.threads,
           measure_median(b.peak, (size_t)b.rounds));
    for (int i = 0; i < b.count; i++) print_contest(&b, &b.contests[i]);
    printf("}\n");
    return 0;
}
