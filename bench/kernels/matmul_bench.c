/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares matrix products with the fastest of OpenBLAS, BLIS and oneDNN, and with the FMA peak.
 *
 *     matmul_bench --aot=PATH [--folder=DIR] [--dnnl=MODULE] [--threads=N] [--rounds=N]
 *                  [--random=COUNT] [--seed=N] [--cpu=NAME] [--best] [--bf16] [--native]
 *                  [--shape=MxNxK]...
 *
 * Each shape is measured twice: first B is an argument of the entry, compared with the libraries
 * that get plain A, B and C; then B is a parameter, compared with the same libraries and those that
 * prepack it. All contestants of a shape, including the peak, take turns within a round; figures
 * are medians over the rounds. Libraries that are much slower on a first shape are dropped. Prints
 * a row per shape, then one JSON object.
 *
 * With --bf16 A, B and C are bf16. oneDNN gets the same if the CPU has the instructions that it
 * needs for bf16; all libraries get the numbers as f32. --native: numerics of the bundle.
 */
#include "bench/kernels/measure.h"
#include "bench/kernels/peers.h"
#include "bench/kernels/program.h"
#include "runtime/base/array.h"

#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES_MAX = 256 };

typedef struct shape {
    size_t m, n, k;
} shape;

typedef struct bench {
    bench_options options;
    const char *dnnl;
    unsigned rounds, random_count;
    uint64_t seed;
    bool best;   /* use the best of the rounds, not their median: for a machine with other work */
    bool narrow; /* use bf16 */
    peer peers[PEERS_MAX];
    bool out[PEERS_MAX]; /* dropped because it is too slow */
    size_t peer_count;
    shape shapes[SHAPES_MAX];
    size_t shape_count, fixed_count;
    double ratios[2][SHAPES_MAX], compile_seconds;
    size_t programs;
} bench;

static const shape standard[] = {
    {64, 64, 64},       {128, 128, 128}, {256, 256, 256},  {512, 512, 512},  {1024, 1024, 1024},
    {2048, 2048, 2048}, {512, 768, 768}, {512, 3072, 768}, {512, 768, 3072}, {1, 768, 768},
};

/* ---- bf16: the upper half of an f32 ---- */

static void narrow(const float *values, size_t count, uint16_t *out_values) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        out_values[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static void widen(const uint16_t *values, size_t count, float *out_values) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)values[i] << 16;
        memcpy(&out_values[i], &bits, sizeof bits);
    }
}

/* ---- one shape ---- */

typedef struct contest {
    bench *b;
    shape s;
    bool weights;
    bench_program *program;
    uint16_t *a_narrow, *b_narrow, *c_narrow; /* inputs of peers; NULL: f32 */
    float *a_wide, *b_wide, *c_wide;          /* the same numbers as f32 */
    float *ours;                              /* Tessera's result, widened from bf16 */
    void *prepared[PEERS_MAX];
    double seconds[PEERS_MAX + 1][MEASURE_ROUNDS_MAX]; /* the last element is Tessera's */
    double peak[MEASURE_ROUNDS_MAX];
} contest;

static void make_text(const shape *s, bool weights, const char *dtype, char *text, size_t size) {
    char a[64], b[64], c[64];
    snprintf(a, sizeof a, "tensor<%zux%zux%s>", s->m, s->k, dtype);
    snprintf(b, sizeof b, "tensor<%zux%zux%s>", s->k, s->n, dtype);
    snprintf(c, sizeof c, "tensor<%zux%zux%s>", s->m, s->n, dtype);
    snprintf(text, size,
             "module @f {\nfunc.func @f(%%a: %s {tessera.name = \"a\"}%s%s%s) -> (%s "
             "{tessera.name = \"c\"}) attributes {tessera.entry = \"infer\"} {\n%s%s%s"
             "%%c = tessera.matmul %%a, %%b : %s, %s -> %s\nreturn %%c : %s\n}\n}\n",
             a, weights ? "" : ", %b: ", weights ? "" : b, weights ? "" : " {tessera.name = \"b\"}",
             c, weights ? "%b = tessera.param \"b\" init = #tessera.uniform<-1.0, 1.0> : " : "",
             weights ? b : "", weights ? "\n" : "", a, b, c, c);
}

static double choose_time(const bench *b, const double *rounds) {
    double best = rounds[0];
    for (unsigned r = 1; r < b->rounds; r++) best = rounds[r] < best ? rounds[r] : best;
    return b->best ? best : measure_median(rounds, b->rounds);
}

static double run_peer(contest *c, size_t i, double seconds) {
    return measure_call(c->b->peers[i].run, c->prepared[i], seconds);
}

/* A turn takes about 5 ms, or one call if that is longer. */
static void run_rounds(contest *c) {
    bench *b = c->b;
    for (unsigned r = 0; r < b->rounds; r++) {
        c->peak[r] = 1 / measure_peak(b->options.threads);
        for (size_t i = 0; i < b->peer_count; i++) {
            if (!c->prepared[i]) continue;
            c->seconds[i][r] = run_peer(c, i, 4e-3);
            if (b->options.threads > 1) measure_wait_idle(); /* wait until its threads sleep */
        }
        c->seconds[PEERS_MAX][r] = measure_call(bench_program_run, c->program, 4e-3);
        if (b->options.threads > 1) measure_wait_idle();
    }
}

static size_t find_best(const contest *c, double *out_seconds) {
    size_t best = PEERS_MAX;
    *out_seconds = INFINITY;
    for (size_t i = 0; i < c->b->peer_count; i++) {
        if (!c->prepared[i]) continue;
        double seconds = choose_time(c->b, c->seconds[i]);
        if (seconds >= *out_seconds) continue;
        *out_seconds = seconds;
        best = i;
    }
    return best;
}

static void drop_slow(contest *c, double best) {
    for (size_t i = 0; i < c->b->peer_count; i++)
        if (c->prepared[i] && choose_time(c->b, c->seconds[i]) > 2 * best) c->b->out[i] = true;
}

/* Returns the difference between a library's result and Tessera's. */
static double find_difference(contest *c) {
    bench *b = c->b;
    size_t count = c->s.m * c->s.n, i = 0;
    while (i < b->peer_count && !c->prepared[i]) i++;
    if (i == b->peer_count) return 0;
    b->peers[i].run(c->prepared[i]);
    if (b->peers[i].is_narrow) widen(c->c_narrow, count, c->c_wide);
    if (b->narrow)
        widen((const uint16_t *)(const void *)bench_program_output(c->program, 0), count, c->ours);
    return measure_difference(b->narrow ? c->ours : bench_program_output(c->program, 0), c->c_wide,
                              count);
}

static double report(contest *c) {
    bench *b = c->b;
    const shape *s = &c->s;
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k, theirs;
    size_t best = find_best(c, &theirs);
    double ours = choose_time(b, c->seconds[PEERS_MAX]);
    double peak = 1 / choose_time(b, c->peak);
    const char *name = best == PEERS_MAX ? "none" : b->peers[best].name;
    double error = find_difference(c), allowed = b->narrow ? 1e-2 : 1e-3;
    char text[64];
    snprintf(text, sizeof text, "%zux%zux%zu", s->m, s->n, s->k);
    printf("%-16s %-7s %10.2f us %7.1f GF %5.1f %% of peak  %10.2f us %s  %.3fx  compiled in %.0f "
           "ms\n",
           text, c->weights ? "weights" : "given", ours * 1e6, flops / ours * 1e-9,
           100 * flops / ours / peak, theirs * 1e6, name, theirs / ours,
           1e3 * bench_program_compile_seconds(c->program));
    fflush(stdout);
    if (!(error < allowed)) {
        fprintf(stderr, "wrong result: relative error %g, allowed is %g\n", error, allowed);
        exit(5);
    }
    if (!c->weights && flops > 3e7) drop_slow(c, theirs);
    return theirs / ours;
}

/* Fills A, and B if it is given, with random numbers; the libraries get the same numbers. */
static void fill_operands(contest *c) {
    const shape *s = &c->s;
    uint64_t state = c->b->seed + s->m * 31 + s->n * 17 + s->k;
    size_t a_count = s->m * s->k, b_count = s->k * s->n, c_count = s->m * s->n;
    size_t size = c->b->narrow ? sizeof(uint16_t) : sizeof(float);
    c->a_wide = measure_floats(&state, a_count);
    c->b_wide = measure_floats(&state, b_count);
    c->c_wide = measure_floats(&state, c_count);
    const void *a = c->a_wide, *b = c->b_wide;
    if (c->b->narrow) {
        c->a_narrow = (void *)measure_floats(&state, a_count / 2 + 1);
        c->b_narrow = (void *)measure_floats(&state, b_count / 2 + 1);
        c->c_narrow = (void *)measure_floats(&state, c_count / 2 + 1);
        c->ours = measure_floats(&state, c_count);
        narrow(c->a_wide, a_count, c->a_narrow);
        narrow(c->b_wide, b_count, c->b_narrow);
        a = c->a_narrow;
        b = c->b_narrow;
    }
    memcpy(bench_program_input(c->program, 0), a, a_count * size);
    if (!c->weights)
        memcpy(bench_program_input(c->program, 1), b, b_count * size);
    else
        memcpy((void *)b, bench_program_param(c->program, "b"), b_count * size);
    if (!c->b->narrow) return;
    widen(c->a_narrow, a_count, c->a_wide);
    widen(c->b_narrow, b_count, c->b_wide);
}

static void drop_operands(contest *c) {
    void *const all[] = {c->a_wide,   c->b_wide,   c->c_wide, c->a_narrow,
                         c->b_narrow, c->c_narrow, c->ours};
    for (size_t i = 0; i < TSR_COUNT(all); i++) free(all[i]);
}

static double run_shape(bench *b, const shape *s, bool weights) {
    static char text[2048];
    contest *c = calloc(1, sizeof *c);
    if (!c) exit(5);
    *c = (contest){.b = b, .s = *s, .weights = weights};
    make_text(s, weights, b->narrow ? "bf16" : "f32", text, sizeof text);
    c->program = bench_program_open(&b->options, text);
    b->compile_seconds += bench_program_compile_seconds(c->program);
    b->programs++;
    fill_operands(c);
    peer_matmul problem = {.m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .a = c->a_wide,
                           .b = c->b_wide,
                           .c = c->c_wide,
                           .a_narrow = c->a_narrow,
                           .b_narrow = c->b_narrow,
                           .c_narrow = c->c_narrow};
    for (size_t i = 0; i < b->peer_count; i++)
        if (!b->out[i] && (weights || !b->peers[i].prepacks))
            c->prepared[i] = b->peers[i].prepare(&b->peers[i], &problem);
    run_rounds(c);
    double ratio = report(c);
    for (size_t i = 0; i < b->peer_count; i++)
        if (c->prepared[i]) b->peers[i].release(c->prepared[i]);
    bench_program_close(c->program);
    drop_operands(c);
    free(c);
    return ratio;
}

/* ---- all ---- */

static size_t draw(uint64_t *state, double low, double high) {
    double unit = (double)(measure_random(state) >> 11) * 0x1p-53;
    return (size_t)lround(exp(log(low) + unit * (log(high) - log(low))));
}

static void add_shapes(bench *b) {
    if (!b->shape_count) {
        memcpy(b->shapes, standard, sizeof standard);
        b->shape_count = TSR_COUNT(standard);
    }
    b->fixed_count = b->shape_count;
    uint64_t state = b->seed;
    for (unsigned i = 0; i < b->random_count && b->shape_count < SHAPES_MAX; i++)
        b->shapes[b->shape_count++] =
            (shape){draw(&state, 1, 2048), draw(&state, 8, 2048), draw(&state, 8, 2048)};
}

static bool parse(bench *b, int argc, char **argv) {
    static const struct option options[] = {
        {"aot", 1, NULL, 'a'},     {"folder", 1, NULL, 'f'}, {"dnnl", 1, NULL, 'd'},
        {"threads", 1, NULL, 't'}, {"rounds", 1, NULL, 'r'}, {"random", 1, NULL, 'n'},
        {"seed", 1, NULL, 's'},    {"cpu", 1, NULL, 'c'},    {"shape", 1, NULL, 'x'},
        {"best", 0, NULL, 'b'},    {"bf16", 0, NULL, 'h'},   {"native", 0, NULL, 'i'},
        {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        shape s;
        switch (option) {
        case 'a':
            b->options.aot = optarg;
            break;
        case 'f':
            b->options.folder = optarg;
            break;
        case 'd':
            b->dnnl = optarg;
            break;
        case 't':
            b->options.threads = (unsigned)atoi(optarg);
            break;
        case 'r':
            b->rounds = (unsigned)atoi(optarg);
            break;
        case 'n':
            b->random_count = (unsigned)atoi(optarg);
            break;
        case 's':
            b->seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            b->options.cpu = optarg;
            break;
        case 'b':
            b->best = true;
            break;
        case 'h':
            b->narrow = true;
            break;
        case 'i':
            b->options.numerics = "native";
            break;
        case 'x':
            if (sscanf(optarg, "%zux%zux%zu", &s.m, &s.n, &s.k) != 3 ||
                b->shape_count == SHAPES_MAX)
                return false;
            b->shapes[b->shape_count++] = s;
            break;
        default:
            return false;
        }
    }
    return b->options.aot && b->options.threads && b->rounds && b->rounds <= MEASURE_ROUNDS_MAX;
}

static void open_peers(bench *b) {
    b->peer_count = peers_open_blas(b->options.folder, b->options.threads, b->peers, PEERS_MAX);
    void *module = b->dnnl ? dlopen(b->dnnl, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = module ? dlsym(module, "peers_open_dnnl") : NULL;
    size_t (*open_dnnl)(peer *, size_t) = NULL;
    if (!symbol) {
        fprintf(stderr, "skipped: oneDNN (%s)\n", b->dnnl ? dlerror() : "no module given");
        return;
    }
    memcpy(&open_dnnl, &symbol, sizeof symbol);
    b->peer_count += open_dnnl(b->peers + b->peer_count, PEERS_MAX - b->peer_count);
}

static void summarize(const char *name, const double *ratios, size_t count) {
    double worst = INFINITY;
    if (!count) return;
    for (size_t i = 0; i < count; i++) worst = ratios[i] < worst ? ratios[i] : worst;
    printf(", \"%s_mean\": %.3f, \"%s_worst\": %.3f", name, measure_geometric_mean(ratios, count),
           name, worst);
}

int main(int argc, char **argv) {
    static bench b = {.options = {.folder = "/tmp", .threads = 1}, .rounds = 7};
    static const char *const names[2][2] = {{"given", "weights"},
                                            {"random_given", "random_weights"}};
    b.seed = (uint64_t)(measure_now() * 1e6);
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "usage: see the head of matmul_bench.c\n");
        return 2;
    }
    if (b.best && b.options.threads == 1) measure_count_own_time();
    if (!measure_pin(b.options.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    setenv("GOMP_SPINCOUNT", "10000", 0);
    open_peers(&b);
    if (!b.peer_count) fprintf(stderr, "skipped: no library to compare with\n");
    add_shapes(&b);
    printf("seed %" PRIu64 ", %u threads\n", b.seed, b.options.threads);
    for (size_t i = 0; i < b.shape_count; i++)
        for (int weights = 0; weights < 2; weights++)
            b.ratios[weights][i] = run_shape(&b, &b.shapes[i], weights);
    printf("{\"dtype\": \"%s\", \"threads\": %u, \"seed\": %" PRIu64 ", \"compile_ms\": %.1f",
           b.narrow ? "bf16" : "f32", b.options.threads, b.seed,
           1e3 * b.compile_seconds / (double)b.programs);
    for (int weights = 0; weights < 2 && b.peer_count; weights++) {
        summarize(names[0][weights], b.ratios[weights], b.fixed_count);
        summarize(names[1][weights], b.ratios[weights] + b.fixed_count,
                  b.shape_count - b.fixed_count);
    }
    printf("}\n");
    return 0;
}
