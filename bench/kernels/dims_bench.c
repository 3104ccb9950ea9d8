/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares programs whose dim N is open, 1 to 64, with programs built for one size.
 *
 *     dims_bench --aot=PATH [--folder=DIR] [--threads=N] [--rounds=N] [--cpu=NAME] [--own-time]
 *
 * Each program runs at 11 sizes, in rounds that alternate with the program for exactly that size.
 * Prints the ratio of the times, open / exact, for each; then one JSON object: the geometric mean
 * over all, the worst with 1 to 3 rows and the worst with more, and the times to build. The two
 * results must have the same bits.
 */
#include "bench/kernels/measure.h"
#include "bench/kernels/program.h"
#include "runtime/base/array.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, ROUNDS_DEFAULT = 9 };

static const int sizes[] = {1, 2, 3, 4, 7, 9, 17, 31, 33, 63, 64};
enum { SIZES = TSR_COUNT(sizes) };

/* "{N COLUMNS}" in a text is the type of a value with N rows. */
typedef struct bench_case {
    const char *name, *text;
    int columns; /* of the result */
} bench_case;

static const bench_case cases[] = {
    {"mlp",
     "%w = tessera.param \"w\" init = #tessera.uniform<-0.1, 0.1> : tensor<256x1024xf32>\n"
     "%v = tessera.param \"v\" init = #tessera.uniform<-0.1, 0.1> : tensor<1024x256xf32>\n"
     "%0 = tessera.matmul %x, %w : ({N 256}, tensor<256x1024xf32>)\n"
     "%1 = tessera.gelu %0 : {N 1024}\n"
     "%2 = tessera.matmul %1, %v : ({N 1024}, tensor<1024x256xf32>)\n"
     "%y = tessera.add %2, %x : ({N 256}, {N 256})\n",
     256},
    {"classifier",
     "%w = tessera.param \"w\" init = #tessera.uniform<-0.1, 0.1> : tensor<256x384xf32>\n"
     "%b = tessera.param \"b\" init = #tessera.uniform<-0.1, 0.1> : tensor<384xf32>\n"
     "%v = tessera.param \"v\" init = #tessera.uniform<-0.1, 0.1> : tensor<384x100xf32>\n"
     "%0 = tessera.matmul %x, %w : ({N 256}, tensor<256x384xf32>)\n"
     "%1 = tessera.add %0, %b : ({N 384}, tensor<384xf32>)\n"
     "%2 = tessera.relu %1 : {N 384}\n"
     "%3 = tessera.matmul %2, %v : ({N 384}, tensor<384x100xf32>)\n"
     "%y = tessera.softmax_safe %3 {axis = 1} : {N 100}\n",
     100},
    {"rows",
     "%0 = tessera.softmax_safe %x {axis = 1} : {N 256}\n"
     "%1 = tessera.mul %0, %x : ({N 256}, {N 256})\n"
     "%y = tessera.softmax_safe %1 {axis = 1} : {N 256}\n",
     256},
    {"map",
     "%0 = tessera.tanh %x : {N 256}\n"
     "%1 = tessera.exp %0 : {N 256}\n"
     "%y = tessera.mul %1, %x : ({N 256}, {N 256})\n",
     256},
};
enum { CASES = TSR_COUNT(cases) };

/* Appends `text` with the types of this size; 0: N is open. */
static void expand(char *out, const char *text, int size) {
    for (size_t at = strlen(out); *text && at + 64 < TEXT_MAX; at = strlen(out)) {
        int columns = 0, length = 0;
        if (sscanf(text, "{N %d}%n", &columns, &length) == 1 && length) {
            if (size)
                snprintf(out + at, 64, "tensor<%dx%dxf32>", size, columns);
            else
                snprintf(out + at, 64, "tensor<?x%dxf32, #tessera.dims<N>>", columns);
            text += length;
            continue;
        }
        out[at] = *text++;
        out[at + 1] = 0;
    }
}

static bench_program *open_case(const bench_options *options, const bench_case *of, int size) {
    static char text[TEXT_MAX];
    char result[32];
    snprintf(result, sizeof result, "{N %d}", of->columns);
    text[0] = 0;
    expand(text, "func.func @f(%x: {N 256} {tessera.name = \"x\"}) -> (", size);
    expand(text, result, size);
    expand(
        text,
        " {tessera.name = \"y\"}) attributes {tessera.rows_independent, tessera.entry = \"infer\"",
        size);
    expand(text, size ? "} {\n" : ", tessera.dims = [\"N\"]} {\n", size);
    expand(text, of->text, size);
    expand(text, "return %y : ", size);
    expand(text, result, size);
    expand(text, "\n}\n", size);
    bench_options at = *options;
    if (!size) at.dim = "N=1..64";
    return bench_program_open(&at, text);
}

static double compare(const bench_options *options, const bench_case *of, bench_program *open,
                      int size, int rounds, double *out_build) {
    double ratios[MEASURE_ROUNDS_MAX];
    bench_program *exact = open_case(options, of, size);
    *out_build = bench_program_compile_seconds(exact);
    bench_program_fill(exact, (uint64_t)size);
    bench_program_fill(open, (uint64_t)size); /* the first rows are the same */
    bench_program_set_dim(open, (uint64_t)size);
    bench_program_run(open);
    bench_program_run(exact);
    if (memcmp(bench_program_output(open, 0), bench_program_output(exact, 0),
               (size_t)size * (size_t)of->columns * sizeof(float)) != 0) {
        fprintf(stderr, "%s, N = %d: other bits\n", of->name, size);
        exit(5);
    }
    for (int r = 0; r < rounds; r++) {
        bool first = r % 2;
        double a = measure_call(bench_program_run, first ? open : exact, 0.02);
        double b = measure_call(bench_program_run, first ? exact : open, 0.02);
        ratios[r] = first ? a / b : b / a;
    }
    bench_program_close(exact);
    return measure_median(ratios, (size_t)rounds);
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"aot", 1, NULL, 'a'},     {"folder", 1, NULL, 'f'},
                                            {"threads", 1, NULL, 't'}, {"rounds", 1, NULL, 'r'},
                                            {"cpu", 1, NULL, 'c'},     {"own-time", 0, NULL, 'o'},
                                            {NULL, 0, NULL, 0}};
    bench_options at = {.folder = "/tmp", .threads = 1};
    double all[CASES * SIZES], few = 0, many = 0, build = 0, open_build = 0;
    int rounds = ROUNDS_DEFAULT;
    bool own_time = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'a') at.aot = optarg;
        if (option == 'f') at.folder = optarg;
        if (option == 't') at.threads = (unsigned)atoi(optarg);
        if (option == 'r') rounds = atoi(optarg);
        if (option == 'c') at.cpu = optarg;
        if (option == 'o') own_time = true;
        if (option == '?') return 2;
    }
    if (!at.aot || !at.threads || rounds < 1 || rounds > MEASURE_ROUNDS_MAX || optind < argc) {
        fprintf(stderr, "usage: see the head of dims_bench.c\n");
        return 2;
    }
    if (own_time && at.threads == 1) measure_count_own_time();
    if (!measure_pin(at.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    printf("%-12s", "open / exact");
    for (int s = 0; s < SIZES; s++) printf(" %6d", sizes[s]);
    for (int c = 0; c < CASES; c++) {
        bench_program *open = open_case(&at, &cases[c], 0);
        open_build += bench_program_compile_seconds(open);
        printf("\n%-12s", cases[c].name);
        for (int s = 0; s < SIZES; s++) {
            double seconds = 0, ratio = compare(&at, &cases[c], open, sizes[s], rounds, &seconds);
            all[c * SIZES + s] = ratio;
            if (sizes[s] == sizes[SIZES - 1]) build += seconds;
            *(sizes[s] <= 3 ? &few : &many) = fmax(sizes[s] <= 3 ? few : many, ratio);
            printf(" %6.3f", ratio);
            fflush(stdout);
        }
        bench_program_close(open);
    }
    printf("\n{\"threads\": %u, \"mean\": %.3f, \"worst_1_to_3\": %.3f, \"worst\": %.3f, "
           "\"build_s\": %.3f, \"exact_build_s\": %.3f}\n",
           at.threads, measure_geometric_mean(all, CASES * SIZES), few, many, open_build, build);
    return 0;
}
