/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares convolution and attention with oneDNN, in turns, and with the FMA peak.
 *
 *     ops_bench --aot=PATH --dnnl=MODULE [--folder=DIR] [--threads=N] [--rounds=N] [--cpu=NAME]
 *               [--best] [--random=COUNT] [--seed=N] [--only=conv|attention]
 *               [--conv=N,H,W,C,F,KH,KW,GROUPS,STRIDE,PADDING]...
 *               [--attention=HEADS,QUERIES,KEYS,D,CAUSAL]...
 *
 * Convolutions are those of ResNet-50 and MobileNet at batch 1, with filters as parameters of the
 * entry, which oneDNN prepacks; attention is compared with matmul, softmax and matmul (without the
 * scale). With --conv or --attention only the given cases run. CAUSAL is 0 or 1. --random adds that
 * number of random cases of each kind. oneDNN computes all scores of causal attention, too: its
 * ratios are summed up separately, and its results are not compared.
 * Figures are medians over the rounds, or the best with --best, for a machine that has other work
 * (one thread: in CPU time).
 * Prints a row per case, then one JSON object. Without the module it measures only Tessera.
 */
#include "bench/kernels/dnnl_ops.h"
#include "bench/kernels/measure.h"
#include "bench/kernels/program.h"
#include "runtime/base/array.h"

#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONVS_MAX = 256, ATTENTIONS_MAX = 256, RANDOM_MAX = 128 };

typedef struct attention_case {
    int64_t heads, queries, keys, d, causal;
} attention_case;

typedef struct bench {
    bench_options options;
    const char *dnnl, *only;
    unsigned rounds, random_count;
    uint64_t seed;
    dnnl_conv convs[CONVS_MAX];
    attention_case attentions[ATTENTIONS_MAX];
    /* fixed: number of cases that are not random */
    size_t conv_count, attention_count, conv_fixed, attention_fixed;
    bool best;
    double compile_seconds; /* total of all cases */
    size_t compiled;
    dnnl_job *(*conv)(const dnnl_conv *conv);
    dnnl_job *(*attention)(const dnnl_attention *attention);
    void (*run)(void *job);
    void (*release)(dnnl_job *job);
    double seconds[3][MEASURE_ROUNDS_MAX]; /* Tessera, oneDNN, 1 / peak */
} bench;

static const dnnl_conv convolutions[] = {
    {1, 56, 56, 64, 64, 3, 3, 1, 1, 1, NULL, NULL, NULL},
    {1, 28, 28, 128, 128, 3, 3, 1, 1, 1, NULL, NULL, NULL},
    {1, 14, 14, 256, 256, 3, 3, 1, 1, 1, NULL, NULL, NULL},
    {1, 7, 7, 512, 512, 3, 3, 1, 1, 1, NULL, NULL, NULL},
    {1, 56, 56, 64, 256, 1, 1, 1, 1, 0, NULL, NULL, NULL},
    {1, 14, 14, 1024, 256, 1, 1, 1, 1, 0, NULL, NULL, NULL},
    {1, 56, 56, 128, 128, 3, 3, 1, 2, 1, NULL, NULL, NULL},
    {1, 224, 224, 3, 64, 7, 7, 1, 2, 3, NULL, NULL, NULL},
    {1, 56, 56, 96, 96, 3, 3, 96, 1, 1, NULL, NULL, NULL},
};
static const attention_case attentions[] = {
    {12, 512, 512, 64, 0},   {12, 512, 512, 64, 1}, {16, 1024, 1024, 64, 0},
    {8, 2048, 2048, 128, 1}, {12, 128, 128, 64, 0},
};

static double choose_time(const bench *b, const double *rounds) {
    double best = rounds[0];
    for (unsigned r = 1; r < b->rounds; r++) best = rounds[r] < best ? rounds[r] : best;
    return b->best ? best : measure_median(rounds, b->rounds);
}

static double compare(bench *b, const char *name, double flops, bench_program *program,
                      dnnl_job *job, const float *expected, size_t count, double tolerance) {
    for (unsigned r = 0; r < b->rounds; r++) {
        b->seconds[2][r] = 1 / measure_peak(b->options.threads);
        if (job) b->seconds[1][r] = measure_call(b->run, job, 4e-3);
        if (b->options.threads > 1) measure_wait_idle();
        b->seconds[0][r] = measure_call(bench_program_run, program, 4e-3);
        if (b->options.threads > 1) measure_wait_idle();
    }
    double ours = choose_time(b, b->seconds[0]), theirs = job ? choose_time(b, b->seconds[1]) : NAN;
    double compiling = bench_program_compile_seconds(program);
    printf(
        "%-42s %10.2f us %7.1f GF %5.1f %% of peak  oneDNN %10.2f us  %.3fx  compiled in %.0f ms\n",
        name, ours * 1e6, flops / ours * 1e-9, 100 * flops / ours * choose_time(b, b->seconds[2]),
        theirs * 1e6, theirs / ours, 1e3 * compiling);
    b->compile_seconds += compiling;
    b->compiled++;
    fflush(stdout);
    double error = job ? measure_difference(bench_program_output(program, 0), expected, count) : 0;
    if (!(error <= tolerance)) {
        fprintf(stderr, "wrong result: relative error %g\n", error);
        exit(5);
    }
    return theirs / ours;
}

static double run_conv(bench *b, dnnl_conv c) {
    char text[2048], image[80], filter[80], result[80], name[80];
    uint64_t state = 1;
    int64_t oh = (c.h + 2 * c.padding - c.kh) / c.stride + 1;
    int64_t ow = (c.w + 2 * c.padding - c.kw) / c.stride + 1, gc = c.c / c.groups;
    size_t images = (size_t)(c.n * c.h * c.w * c.c), results = (size_t)(c.n * oh * ow * c.f);
    snprintf(image, sizeof image, "tensor<%ldx%ldx%ldx%ldxf32>", c.n, c.h, c.w, c.c);
    snprintf(filter, sizeof filter, "tensor<%ldx%ldx%ldx%ldxf32>", c.kh, c.kw, gc, c.f);
    snprintf(result, sizeof result, "tensor<%ldx%ldx%ldx%ldxf32>", c.n, oh, ow, c.f);
    snprintf(text, sizeof text,
             "module @f {\nfunc.func @f(%%x: %s {tessera.name = \"x\"}) -> (%s {tessera.name = "
             "\"y\"}) attributes {tessera.entry = \"infer\"} {\n"
             "%%w = tessera.param \"w\" init = #tessera.uniform<-1.0, 1.0> : %s\n"
             "%%y = tessera.conv2d %%x, %%w {strides = [%ld, %ld], padding = [%ld, %ld, %ld, %ld], "
             "dilation = [1, 1], groups = %ld} : %s, %s -> %s\nreturn %%y : %s\n}\n}\n",
             image, result, filter, c.stride, c.stride, c.padding, c.padding, c.padding, c.padding,
             c.groups, image, filter, result, result);
    bench_program *program = bench_program_open(&b->options, text);
    float *x = measure_floats(&state, images), *y = measure_floats(&state, results);
    memcpy(bench_program_input(program, 0), x, images * sizeof *x);
    c.image = x;
    c.filter = bench_program_param(program, "w");
    c.result = y;
    dnnl_job *job = b->conv ? b->conv(&c) : NULL;
    snprintf(name, sizeof name, "conv %ldx%ldx%ldx%ld %ldx%ld to %ld /%ld +%ld g%ld", c.n, c.h, c.w,
             c.c, c.kh, c.kw, c.f, c.stride, c.padding, c.groups);
    double flops = 2.0 * (double)(oh * ow * c.f * c.kh * c.kw) * (double)(gc * c.n);
    double ratio = compare(b, name, flops, program, job, y, results, 1e-3);
    if (job) b->release(job);
    bench_program_close(program);
    free(x);
    free(y);
    return ratio;
}

static double run_attention(bench *b, const attention_case *a) {
    char text[2048], q[80], k[80], name[80];
    uint64_t state = 1;
    size_t queries = (size_t)(a->heads * a->queries * a->d);
    size_t keys = (size_t)(a->heads * a->keys * a->d);
    snprintf(q, sizeof q, "tensor<1x%ldx%ldx%ldxf32>", a->heads, a->queries, a->d);
    snprintf(k, sizeof k, "tensor<1x%ldx%ldx%ldxf32>", a->heads, a->keys, a->d);
    snprintf(
        text, sizeof text,
        "module @f {\nfunc.func @f(%%q: %s {tessera.name = \"q\"}, %%k: %s {tessera.name = "
        "\"k\"}, %%v: %s {tessera.name = \"v\"}) -> (%s {tessera.name = \"y\"}) attributes "
        "{tessera.entry = \"infer\"} {\n%%y = tessera.attention %%q, %%k, %%v {%sscale = 1.0 : "
        "f64} : %s, %s, %s -> %s\nreturn %%y : %s\n}\n}\n",
        q, k, k, q, a->causal ? "causal, " : "", q, k, k, q, q);
    bench_program *program = bench_program_open(&b->options, text);
    float *data[] = {measure_floats(&state, queries), measure_floats(&state, keys),
                     measure_floats(&state, keys), measure_floats(&state, queries)};
    memcpy(bench_program_input(program, 0), data[0], queries * sizeof(float));
    memcpy(bench_program_input(program, 1), data[1], keys * sizeof(float));
    memcpy(bench_program_input(program, 2), data[2], keys * sizeof(float));
    dnnl_attention theirs = {a->heads, a->queries, a->keys, a->d,
                             data[0],  data[1],    data[2], data[3]};
    dnnl_job *job = b->attention ? b->attention(&theirs) : NULL;
    snprintf(name, sizeof name, "attention %ld x %ld x %ld x %ld%s", a->heads, a->queries, a->keys,
             a->d, a->causal ? " causal" : "");
    double flops = 4.0 * (double)(a->heads * a->queries * a->keys) * (double)a->d;
    /* oneDNN uses every key: the results differ if Tessera's is causal. */
    double ratio = compare(b, name, a->causal ? flops / 2 : flops, program, job, data[3], queries,
                           a->causal ? 1e9 : 1e-3);
    if (job) b->release(job);
    bench_program_close(program);
    for (size_t i = 0; i < 4; i++) free(data[i]);
    return ratio;
}

/* Returns a random number from low to high with a log-uniform distribution. */
static int64_t draw_log_uniform(uint64_t *state, double low, double high) {
    double unit = (double)(measure_random(state) >> 11) * 0x1p-53;
    return (int64_t)(low * pow(high / low, unit) + 0.5);
}

/* Draws a case of 20 to 1000 million operations. */
static dnnl_conv draw_conv(uint64_t *state) {
    static const int64_t taps[] = {1, 2, 3, 3, 3, 4, 5, 7}, channels[] = {1, 3, 4};
    for (;;) {
        int64_t k = taps[measure_random(state) % 8], few = (int64_t)(measure_random(state) % 4);
        dnnl_conv c = {.n = draw_log_uniform(state, 1, 4),
                       .h = draw_log_uniform(state, 7, 256),
                       .c = few < 3 ? draw_log_uniform(state, 5, 512)
                                    : channels[measure_random(state) % 3],
                       .f = draw_log_uniform(state, 8, 512),
                       .kh = k,
                       .kw = measure_random(state) % 8 ? k : taps[measure_random(state) % 8],
                       .groups = 1,
                       .stride = measure_random(state) % 3 ? 1 : 2};
        c.w = measure_random(state) % 2 ? c.h : draw_log_uniform(state, 7, 256);
        c.padding = measure_random(state) % 4 ? k / 2 : 0;
        int64_t oh = (c.h + 2 * c.padding - c.kh) / c.stride + 1;
        int64_t ow = (c.w + 2 * c.padding - c.kw) / c.stride + 1;
        if (c.h + 2 * c.padding < c.kh || c.w + 2 * c.padding < c.kw) continue;
        double flops = 2.0 * (double)(c.n * oh * ow * c.f) * (double)(c.kh * c.kw * c.c);
        if (flops >= 20e6 && flops <= 1000e6) return c;
    }
}

/* Draws a case of 20 to 1000 million operations, counted as if it were not causal. */
static attention_case draw_attention(uint64_t *state) {
    for (;;) {
        attention_case a = {.heads = draw_log_uniform(state, 1, 32),
                            .queries = draw_log_uniform(state, 1, 4096)};
        a.keys = measure_random(state) % 2 ? a.queries : draw_log_uniform(state, 8, 4096);
        a.d = measure_random(state) % 2 ? 16 * draw_log_uniform(state, 1, 12)
                                        : draw_log_uniform(state, 8, 192);
        a.causal = a.queries == a.keys && measure_random(state) % 2;
        double flops = 4.0 * (double)(a.heads * a.queries * a.keys) * (double)a.d;
        if (flops >= 20e6 && flops <= 1000e6) return a;
    }
}

/* Parses exactly `count` numbers separated by commas. */
static bool parse_numbers(const char *text, int64_t *const *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        *to[i] = strtoll(text, &end, 10);
        if (end == text || *end != (i + 1 < count ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

static bool parse_conv(bench *b, const char *text) {
    dnnl_conv c = {0};
    int64_t *to[] = {&c.n, &c.h, &c.w, &c.c, &c.f, &c.kh, &c.kw, &c.groups, &c.stride, &c.padding};
    if (b->conv_count == CONVS_MAX - RANDOM_MAX || !parse_numbers(text, to, TSR_COUNT(to)))
        return false;
    b->convs[b->conv_count++] = c;
    return true;
}

static bool parse_attention(bench *b, const char *text) {
    attention_case a = {0};
    int64_t *to[] = {&a.heads, &a.queries, &a.keys, &a.d, &a.causal};
    if (b->attention_count == ATTENTIONS_MAX - RANDOM_MAX ||
        !parse_numbers(text, to, TSR_COUNT(to)))
        return false;
    b->attentions[b->attention_count++] = a;
    return true;
}

static void *find(void *module, const char *name) {
    void *symbol = module ? dlsym(module, name) : NULL;
    return symbol;
}

static void open_dnnl(bench *b) {
    void *module = b->dnnl ? dlopen(b->dnnl, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbols[] = {find(module, "dnnl_conv_prepare"), find(module, "dnnl_attention_prepare"),
                       find(module, "dnnl_job_run"), find(module, "dnnl_job_release")};
    if (!symbols[0] || !symbols[1] || !symbols[2] || !symbols[3]) {
        fprintf(stderr, "skipped: oneDNN (%s)\n", b->dnnl ? dlerror() : "no module given");
        return;
    }
    memcpy(&b->conv, &symbols[0], sizeof symbols[0]);
    memcpy(&b->attention, &symbols[1], sizeof symbols[1]);
    memcpy(&b->run, &symbols[2], sizeof symbols[2]);
    memcpy(&b->release, &symbols[3], sizeof symbols[3]);
}

static bool parse(bench *b, int argc, char **argv) {
    static const struct option options[] = {
        {"aot", 1, NULL, 'a'},  {"folder", 1, NULL, 'f'},    {"dnnl", 1, NULL, 'd'},
        {"cpu", 1, NULL, 'c'},  {"threads", 1, NULL, 't'},   {"rounds", 1, NULL, 'r'},
        {"best", 0, NULL, 'b'}, {"random", 1, NULL, 'n'},    {"seed", 1, NULL, 's'},
        {"conv", 1, NULL, 'x'}, {"attention", 1, NULL, 'y'}, {"only", 1, NULL, 'o'},
        {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'a')
            b->options.aot = optarg;
        else if (option == 'f')
            b->options.folder = optarg;
        else if (option == 'd')
            b->dnnl = optarg;
        else if (option == 't')
            b->options.threads = (unsigned)atoi(optarg);
        else if (option == 'r')
            b->rounds = (unsigned)atoi(optarg);
        else if (option == 'c')
            b->options.cpu = optarg;
        else if (option == 'b')
            b->best = true;
        else if (option == 'n')
            b->random_count = (unsigned)atoi(optarg);
        else if (option == 's')
            b->seed = strtoull(optarg, NULL, 10);
        else if (option == 'o')
            b->only = optarg;
        else if (option == 'x' ? !parse_conv(b, optarg)
                               : option != 'y' || !parse_attention(b, optarg))
            return false;
    }
    if (b->only && strcmp(b->only, "conv") != 0 && strcmp(b->only, "attention") != 0) return false;
    return b->random_count <= RANDOM_MAX && b->options.aot && b->options.threads && b->rounds &&
           b->rounds <= MEASURE_ROUNDS_MAX;
}

/* Chooses the requested cases, or all fixed ones; then adds random ones. */
static void choose_cases(bench *b) {
    uint64_t state = b->seed;
    bool convs = !b->only || strcmp(b->only, "conv") == 0;
    bool others = !b->only || strcmp(b->only, "attention") == 0;
    if (!b->conv_count && !b->attention_count) {
        memcpy(b->convs, convolutions, sizeof convolutions);
        memcpy(b->attentions, attentions, sizeof attentions);
        b->conv_count = TSR_COUNT(convolutions);
        b->attention_count = TSR_COUNT(attentions);
    }
    if (!convs) b->conv_count = 0;
    if (!others) b->attention_count = 0;
    b->conv_fixed = b->conv_count;
    b->attention_fixed = b->attention_count;
    for (unsigned i = 0; i < b->random_count; i++) {
        dnnl_conv conv = draw_conv(&state);
        attention_case attention = draw_attention(&state);
        if (convs) b->convs[b->conv_count++] = conv;
        if (others) b->attentions[b->attention_count++] = attention;
    }
}

static void summarize(const char *name, const double *ratios, size_t count) {
    double least = INFINITY;
    if (!count) return;
    for (size_t i = 0; i < count; i++) least = fmin(least, ratios[i]);
    printf(", \"%s_mean\": %.3f, \"%s_worst\": %.3f", name, measure_geometric_mean(ratios, count),
           name, least);
}

/* Summarizes causal attention separately, and random cases separately. */
static void summarize_attention(const bench *b, const double *ratios) {
    static const char *const names[2][2] = {{"attention", "attention_causal"},
                                            {"random_attention", "random_attention_causal"}};
    for (int drawn = 0; drawn < 2; drawn++)
        for (int causal = 0; causal < 2; causal++) {
            double some[ATTENTIONS_MAX];
            size_t count = 0;
            for (size_t i = 0; i < b->attention_count; i++)
                if ((i >= b->attention_fixed) == drawn && b->attentions[i].causal == causal)
                    some[count++] = ratios[i];
            summarize(names[drawn][causal], some, count);
        }
}

int main(int argc, char **argv) {
    static bench b = {.options = {.folder = "/tmp", .threads = 1}, .rounds = 7};
    double convs[CONVS_MAX], others[ATTENTIONS_MAX];
    b.seed = (uint64_t)(measure_now() * 1e6);
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "usage: see the head of ops_bench.c\n");
        return 2;
    }
    if (b.best && b.options.threads == 1) measure_count_own_time();
    if (!measure_pin(b.options.threads)) fprintf(stderr, "not pinned: too few CPUs\n");
    setenv("GOMP_SPINCOUNT", "10000", 0);
    open_dnnl(&b);
    if (b.random_count) printf("seed %" PRIu64 "\n", b.seed);
    choose_cases(&b);
    for (size_t i = 0; i < b.conv_count; i++) convs[i] = run_conv(&b, b.convs[i]);
    for (size_t i = 0; i < b.attention_count; i++) others[i] = run_attention(&b, &b.attentions[i]);
    printf("{\"threads\": %u", b.options.threads);
    if (b.random_count) printf(", \"seed\": %" PRIu64, b.seed);
    if (b.compiled) printf(", \"compile_ms\": %.1f", 1e3 * b.compile_seconds / (double)b.compiled);
    if (b.conv) {
        summarize("conv", convs, b.conv_fixed);
        summarize("random_conv", convs + b.conv_fixed, b.conv_count - b.conv_fixed);
        summarize_attention(&b, others);
    }
    printf("}\n");
    return 0;
}
