/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares memory-bound kernels with a copy of the same number of bytes: softmax, layernorm, cross
 * entropy and their gradients, AdamW, sums.
 *
 *     rows_bench --aot=PATH [--folder=DIR] [--threads=N] [--rounds=N] [--cpu=NAME] [--mib=N]
 *                [--only=TEXT] [--columns=N] [--random=COUNT] [--seed=N]
 *
 * Arguments are N MiB each (96), larger than the caches. A kernel's bytes are those it must read
 * and write once; the copy reads and writes the same total on the same number of threads,
 * alternating with the kernel. Exponentials have a separate lower bound: the same expression on a
 * row that fits in the cache. --columns replaces the columns of the cases. --random adds that
 * number of random rows and columns to the cases in turn, of N / 2 to N MiB. Prints a row per case,
 * then one JSON object of ratios: kernel to copy.
 */
#include "bench/kernels/measure.h"
#include "bench/kernels/program.h"
#include "runtime/base/array.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 16, RANDOM_MAX = 256, THREADS_MAX = 64 };

typedef struct bench {
    bench_options options;
    int rounds;
    size_t bytes; /* bytes of an argument */
    const char *only;
    size_t columns;  /* 0: use the columns of each case */
    char *from, *to; /* buffers of the copy */
    size_t copied;
    unsigned random_count;
    uint64_t seed;
    double ratios[CASES_MAX], random[RANDOM_MAX];
    char names[CASES_MAX][32];
    size_t count;
} bench;

/* The texts use $R for rows, $C for columns, $K for 1 / $C, $F for the type of a whole argument. */
typedef struct row_case {
    const char *name, *arguments, *results, *body;
    size_t columns;
    unsigned moved; /* number of whole arguments read and written */
    bool train;
} row_case;

#define SUM_ROW(result, of)                                                                        \
    "%" result "r = tessera.sum %" of " {axes = [1]} : $F -> tensor<$Rxf32>\n"                     \
    "%" result " = tessera.reshape %" result "r : tensor<$Rxf32> -> tensor<$Rx1xf32>\n"
#define MEAN_ROW(result, of)                                                                       \
    "%" result "r = tessera.sum %" of " {axes = [1]} : $F -> tensor<$Rxf32>\n"                     \
    "%" result "k = tessera.mul %" result                                                          \
    "r, %k : tensor<$Rxf32>, tensor<f32> -> tensor<$Rxf32>\n"                                      \
    "%" result " = tessera.reshape %" result "k : tensor<$Rxf32> -> tensor<$Rx1xf32>\n"
#define WITH_ROW(result, op, x, y)                                                                 \
    "%" result " = tessera." op " %" x ", %" y " : $F, tensor<$Rx1xf32> -> $F\n"
#define BOTH(result, op, x, y) "%" result " = tessera." op " %" x ", %" y " : $F, $F -> $F\n"
#define PARAMETER(name, what)                                                                      \
    "%" name " = tessera.param \"" name "\" init = #tessera." what " : tensor<$Cxf32>\n"

static const row_case cases[] = {
    {"softmax", "%x: $F {tessera.name = \"x\"}", "$F",
     "%y = tessera.softmax_safe %x {axis = 1 : i64} : $F\nreturn %y : $F\n", 1024, 2, false},
    {"softmax_grad", "%y: $F {tessera.name = \"y\"}, %g: $F {tessera.name = \"g\"}", "$F",
     BOTH("p", "mul", "y", "g") SUM_ROW("t", "p") WITH_ROW("d", "sub", "g", "t")
         BOTH("z", "mul", "d", "y") "return %z : $F\n",
     1024, 3, false},
    {"layernorm", "%x: $F {tessera.name = \"x\"}", "$F",
     PARAMETER("s", "uniform<0.5, 1.5>") PARAMETER(
         "b", "uniform<-1.0, 1.0>") "%y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = "
                                    "1.0e-5} : $F, tensor<$Cxf32>, tensor<$Cxf32> -> $F\n"
                                    "return %y : $F\n",
     768, 2, false},
    {"layernorm_grad", "%x: $F {tessera.name = \"x\"}, %g: $F {tessera.name = \"g\"}", "$F",
     PARAMETER(
         "s",
         "uniform<0.5, 1.5>") "%k = tessera.constant dense<$K> : tensor<f32>\n"
                              "%i = tessera.constant dense<1.0e-5> : tensor<f32>\n" MEAN_ROW("a",
                                                                                             "x")
                                  WITH_ROW("d", "sub", "x", "a") BOTH(
                                      "q", "mul", "d",
                                      "d") "%v = tessera.sum %q {axes = [1]} : $F -> "
                                           "tensor<$Rxf32>\n"
                                           "%w = tessera.mul %v, %k : tensor<$Rxf32>, tensor<f32> "
                                           "-> tensor<$Rxf32>\n"
                                           "%u = tessera.add %w, %i : tensor<$Rxf32>, tensor<f32> "
                                           "-> tensor<$Rxf32>\n"
                                           "%rk = tessera.rsqrt %u : tensor<$Rxf32>\n"
                                           "%r = tessera.reshape %rk : tensor<$Rxf32> -> "
                                           "tensor<$Rx1xf32>\n" WITH_ROW(
                                               "n", "mul", "d",
                                               "r") "%gs = tessera.mul %g, %s : $F, tensor<$Cxf32> "
                                                    "-> $F\n" BOTH("gn", "mul", "gs", "n") MEAN_ROW(
                                                        "c1", "gs") MEAN_ROW("c2", "gn")
                                                        WITH_ROW("e", "sub", "gs", "c1")
                                                            WITH_ROW("f", "mul", "n", "c2")
                                                                BOTH("h", "sub", "e", "f") WITH_ROW(
                                                                    "y", "mul", "h",
                                                                    "r") "return %y : $F\n",
     768, 3, false},
    {"cross_entropy", "%x: $F {tessera.name = \"x\"}, %l: tensor<$Rxi64> {tessera.name = \"l\"}",
     "tensor<$Rxf32>",
     "%y = tessera.cross_entropy %x, %l : $F, tensor<$Rxi64> -> tensor<$Rxf32>\n"
     "return %y : tensor<$Rxf32>\n",
     32768, 1, false},
    {"cross_entropy_grad",
     "%x: $F {tessera.name = \"x\"}, %l: tensor<$Rxi64> {tessera.name = \"l\"}, "
     "%d: tensor<$Rxf32> {tessera.name = \"d\"}",
     "$F",
     "%y = tessera.cross_entropy_grad %x, %l, %d : $F, tensor<$Rxi64>, tensor<$Rxf32> -> $F\n"
     "return %y : $F\n",
     32768, 2, false},
    {"adamw", "%g: $F {tessera.name = \"g\"}", "tensor<f32>",
     "%w = tessera.param \"w\" init = #tessera.uniform<-1.0, 1.0> : $F\n"
     "%m = tessera.opt.state \"w.adam_m\" of \"w\" kind \"adam_m\" init = #tessera.constant<0.0> : "
     "$F\n"
     "%v = tessera.opt.state \"w.adam_v\" of \"w\" kind \"adam_v\" init = #tessera.constant<0.0> : "
     "$F\n"
     "%t = tessera.step : tensor<i64>\n"
     "%n:3 = tessera.adamw %w, %g, %m, %v, %t {optimizer = #tessera.adamw<lr = 0.001, beta1 = 0.9, "
     "beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.01>} : $F, tensor<i64>\n"
     "tessera.assign %n#0 to \"w\" : $F\ntessera.assign %n#1 to \"w.adam_m\" : $F\n"
     "tessera.assign %n#2 to \"w.adam_v\" : $F\n"
     "%l = tessera.constant dense<0.0> : tensor<f32>\nreturn %l : tensor<f32>\n",
     1024, 7, true},
    {"sum_all", "%x: $F {tessera.name = \"x\"}", "tensor<f32>",
     "%y = tessera.sum %x {axes = [0, 1]} : $F -> tensor<f32>\nreturn %y : tensor<f32>\n", 1024, 1,
     false},
    {"sum_columns", "%x: $F {tessera.name = \"x\"}", "tensor<$Cxf32>",
     "%y = tessera.sum %x {axes = [0]} : $F -> tensor<$Cxf32>\nreturn %y : tensor<$Cxf32>\n", 3072,
     1, false},
    {"sum_few_columns", "%x: $F {tessera.name = \"x\"}", "tensor<$Cxf32>",
     "%y = tessera.sum %x {axes = [0]} : $F -> tensor<$Cxf32>\nreturn %y : tensor<$Cxf32>\n", 96, 1,
     false},
    {"gelu", "%x: $F {tessera.name = \"x\"}", "$F", "%y = tessera.gelu %x : $F\nreturn %y : $F\n",
     3072, 2, false},
};

static void put(char **at, const char *text, size_t rows, size_t columns) {
    for (; *text; text++) {
        if (*text != '$')
            *(*at)++ = *text;
        else if (*++text == 'R')
            *at += sprintf(*at, "%zu", rows);
        else if (*text == 'C')
            *at += sprintf(*at, "%zu", columns);
        else if (*text == 'K')
            *at += sprintf(*at, "%.9e", 1 / (double)columns);
        else
            *at += sprintf(*at, "tensor<%zux%zuxf32>", rows, columns);
    }
}

static bench_program *open_case(const bench *b, const row_case *c, size_t rows) {
    static char text[1 << 16];
    char *at = text;
    put(&at, "module @f {\nfunc.func @f(", 0, 0);
    put(&at, c->arguments, rows, c->columns);
    put(&at, ") -> (", 0, 0);
    put(&at, c->results, rows, c->columns);
    put(&at, " {tessera.name = \"out\"}) attributes {tessera.entry = ", 0, 0);
    put(&at, c->train ? "\"train\"} {\n" : "\"infer\"} {\n", 0, 0);
    put(&at, c->body, rows, c->columns);
    put(&at, "}\n}\n", 0, 0);
    *at = 0;
    bench_program *program = bench_program_open(&b->options, text);
    bench_program_fill(program, 1);
    return program;
}

/* ---- the copy -------------------------------------------------------------------------------- */

typedef struct part {
    const bench *bench;
    unsigned index;
} part;

static void *copy_part(void *user) {
    const part *p = user;
    const bench *b = p->bench;
    size_t share = b->copied / b->options.threads / 64 * 64, begin = p->index * share;
    if (p->index + 1 == b->options.threads) share = b->copied - begin;
    memcpy(b->to + begin, b->from + begin, share);
    return NULL;
}

static void copy(void *user) {
    bench *b = user;
    pthread_t handles[THREADS_MAX];
    part parts[THREADS_MAX];
    unsigned count = b->options.threads;
    for (unsigned i = 0; i < count; i++) parts[i] = (part){b, i};
    for (unsigned i = 1; i < count; i++)
        if (pthread_create(&handles[i], NULL, copy_part, &parts[i])) exit(5);
    copy_part(&parts[0]);
    for (unsigned i = 1; i < count; i++) pthread_join(handles[i], NULL);
    __asm__ volatile("" : : "r"(b->to) : "memory");
}

/* ---- cases ----------------------------------------------------------------------------------- */

static double least(const double *values, int count) {
    double best = values[0];
    for (int i = 1; i < count; i++) best = fmin(best, values[i]);
    return best;
}

/* Runs a row that fits in the cache again and again: the speed of computing alone, in bytes per
 * second. */
static double cached_speed(const bench *b, const row_case *c) {
    size_t rows = 16384 / c->columns + 1;
    bench_program *program = open_case(b, c, rows);
    double seconds = INFINITY, bytes = (double)(rows * c->columns) * 4 * c->moved;
    for (int r = 0; r < b->rounds; r++)
        seconds = fmin(seconds, measure_call(bench_program_run, program, 2e-3));
    bench_program_close(program);
    return bytes / seconds;
}

/* Returns the speed relative to the copy. */
static double run_case(bench *b, const row_case *c, size_t rows) {
    static double ours[MEASURE_ROUNDS_MAX], theirs[MEASURE_ROUNDS_MAX];
    char name[64];
    bench_program *program = open_case(b, c, rows);
    double bytes = (double)(rows * c->columns) * 4 * c->moved;
    size_t half = (size_t)bytes / 2;
    b->copied = half < b->bytes * 2 ? half : b->bytes * 2;
    for (int r = 0; r < b->rounds; r++) {
        theirs[r] = measure_call(copy, b, 0.02) * (double)half / (double)b->copied;
        if (b->options.threads > 1) measure_wait_idle();
        ours[r] = measure_call(bench_program_run, program, 0.02);
    }
    double mine = measure_median(ours, (size_t)b->rounds);
    double other = measure_median(theirs, (size_t)b->rounds);
    snprintf(name, sizeof name, "%s %zux%zu", c->name, rows, c->columns);
    printf("%-32s %9.2f ms %6.1f GB/s  copy %6.1f GB/s  %.3fx (least %.3fx)  in cache %6.1f GB/s  "
           "%zu kernels, compiled in %.0f ms\n",
           name, mine * 1e3, bytes / mine * 1e-9, bytes / other * 1e-9, other / mine,
           least(theirs, b->rounds) / least(ours, b->rounds), cached_speed(b, c) * 1e-9,
           bench_program_launches(program), 1e3 * bench_program_compile_seconds(program));
    fflush(stdout);
    bench_program_close(program);
    return other / mine;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Returns a random number from low to high with a log-uniform distribution. */
static size_t draw(uint64_t *state, double low, double high) {
    double unit = (double)(measure_random(state) >> 11) * 0x1p-53;
    return (size_t)lround(low * pow(high / low, unit));
}

/* Runs the cases as they are, then the requested number of random ones. */
static void run_cases(bench *b) {
    const row_case *chosen[CASES_MAX];
    uint64_t state = b->seed;
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        if (!b->only || strstr(cases[i].name, b->only)) chosen[b->count++] = &cases[i];
    for (size_t i = 0; i < b->count; i++) {
        snprintf(b->names[i], sizeof b->names[0], "%s", chosen[i]->name);
        row_case c = *chosen[i];
        if (b->columns) c.columns = b->columns;
        b->ratios[i] = run_case(b, &c, b->bytes / 4 / c.columns);
    }
    if (!b->count) b->random_count = 0;
    for (unsigned i = 0; i < b->random_count; i++) {
        row_case c = *chosen[i % b->count];
        c.columns = draw(&state, 64, 65536);
        size_t rows = draw(&state, (double)b->bytes / 2, (double)b->bytes) / 4 / c.columns;
        b->random[i] = run_case(b, &c, rows ? rows : 1);
    }
}

static void report(const bench *b) {
    double worst = INFINITY;
    printf("{\"threads\": %u", b->options.threads);
    for (size_t i = 0; i < b->count; i++) printf(", \"%s\": %.3f", b->names[i], b->ratios[i]);
    for (unsigned i = 0; i < b->random_count; i++) worst = fmin(worst, b->random[i]);
    if (b->random_count)
        printf(", \"seed\": %" PRIu64 ", \"random_mean\": %.3f, \"random_worst\": %.3f", b->seed,
               measure_geometric_mean(b->random, b->random_count), worst);
    printf("}\n");
}

static bool parse(bench *b, int argc, char **argv) {
    static const struct option options[] = {
        {"aot", 1, NULL, 'a'},    {"folder", 1, NULL, 'f'},  {"threads", 1, NULL, 't'},
        {"rounds", 1, NULL, 'r'}, {"cpu", 1, NULL, 'c'},     {"mib", 1, NULL, 'm'},
        {"only", 1, NULL, 'o'},   {"dnnl", 1, NULL, 'd'},    {"random", 1, NULL, 'n'},
        {"seed", 1, NULL, 's'},   {"columns", 1, NULL, 'k'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'a') b->options.aot = optarg;
        if (option == 'f') b->options.folder = optarg;
        if (option == 't') b->options.threads = (unsigned)atoi(optarg);
        if (option == 'r') b->rounds = atoi(optarg);
        if (option == 'c') b->options.cpu = optarg;
        if (option == 'm') b->bytes = (size_t)atoi(optarg) << 20;
        if (option == 'o') b->only = optarg;
        if (option == 'n') b->random_count = (unsigned)atoi(optarg);
        if (option == 'k') b->columns = (size_t)atoi(optarg);
        if (option == 's') b->seed = strtoull(optarg, NULL, 10);
        if (option == '?') return false;
    }
    return b->options.aot && b->options.threads && b->options.threads <= THREADS_MAX &&
           b->rounds >= 1 && b->rounds <= MEASURE_ROUNDS_MAX && b->bytes &&
           b->random_count <= RANDOM_MAX;
}

int main(int argc, char **argv) {
    static bench b = {
        .options = {.folder = "/tmp", .threads = 1}, .rounds = 7, .bytes = (size_t)96 << 20};
    b.seed = (uint64_t)(measure_now() * 1e6);
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "usage: see the head of rows_bench.c\n");
        return 2;
    }
    if (!measure_pin(b.options.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    uint64_t state = 1;
    b.from = (char *)measure_floats(&state, b.bytes / 2);
    b.to = (char *)measure_floats(&state, b.bytes / 2);
    if (b.random_count) printf("seed %" PRIu64 "\n", b.seed);
    run_cases(&b);
    report(&b);
    return 0;
}
