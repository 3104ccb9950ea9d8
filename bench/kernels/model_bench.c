/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the time of a call of programs with one entry `f`, and of the FMA peak.
 *
 *     model_bench --aot=PATH [--folder=DIR] [--threads=N] [--rounds=N] [--cpu=NAME]
 *                 [--numerics=NAME] [--own-time] FILE.mlir...
 *
 * With --own-time one thread's seconds are CPU time, for a machine that has other work: then use
 * the minimum.
 * Float inputs are random, others zero. Prints one JSON object: for each file its name, seconds of
 * building (including the start of the compiler) and of a call (the median of rounds that
 * alternate, and the minimum), bytes of the workspace, launches; and the peak in operations per
 * second (medians).
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

int main(int argc, char **argv) {
    static const struct option options[] = {{"aot", 1, NULL, 'a'},      {"folder", 1, NULL, 'f'},
                                            {"threads", 1, NULL, 't'},  {"rounds", 1, NULL, 'r'},
                                            {"cpu", 1, NULL, 'c'},      {"numerics", 1, NULL, 'n'},
                                            {"own-time", 0, NULL, 'o'}, {NULL, 0, NULL, 0}};
    static double seconds[FILES_MAX][MEASURE_ROUNDS_MAX], peak[MEASURE_ROUNDS_MAX];
    bench_options at = {.folder = "/tmp", .threads = 1};
    bench_program *programs[FILES_MAX];
    int rounds = 7, files = 0;
    bool own_time = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'a') at.aot = optarg;
        if (option == 'f') at.folder = optarg;
        if (option == 't') at.threads = (unsigned)atoi(optarg);
        if (option == 'r') rounds = atoi(optarg);
        if (option == 'c') at.cpu = optarg;
        if (option == 'n') at.numerics = optarg;
        if (option == 'o') own_time = true;
        if (option == '?') return 2;
    }
    files = argc - optind;
    if (!at.aot || !at.threads || rounds < 1 || rounds > MEASURE_ROUNDS_MAX || files < 1 ||
        files > FILES_MAX) {
        fprintf(stderr, "usage: see the head of model_bench.c\n");
        return 2;
    }
    if (own_time && at.threads == 1) measure_count_own_time();
    if (!measure_pin(at.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    for (int i = 0; i < files; i++) {
        char *text = read_text(argv[optind + i]);
        programs[i] = bench_program_open(&at, text);
        bench_program_fill(programs[i], 1);
        free(text);
    }
    for (int r = 0; r < rounds; r++) {
        peak[r] = measure_peak(at.threads);
        for (int i = 0; i < files; i++) {
            if (at.threads > 1) measure_wait_idle();
            seconds[i][r] = measure_call(bench_program_run, programs[i], 0.05);
        }
    }
    printf("{\"threads\": %u, \"peak\": %.4g", at.threads, measure_median(peak, (size_t)rounds));
    for (int i = 0; i < files; i++) {
        double least = INFINITY;
        for (int r = 0; r < rounds; r++) least = fmin(least, seconds[i][r]);
        const char *name = strrchr(argv[optind + i], '/');
        printf(
            ", \"%s\": {\"build\": %.3f, \"seconds\": %.6g, \"least\": %.6g, \"workspace\": %zu, "
            "\"launches\": %zu}",
            name ? name + 1 : argv[optind + i], bench_program_compile_seconds(programs[i]),
            measure_median(seconds[i], (size_t)rounds), least, bench_program_workspace(programs[i]),
            bench_program_launches(programs[i]));
        bench_program_close(programs[i]);
    }
    printf("}\n");
    return 0;
}
