/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenBLAS and BLIS. The core type is chosen by an environment variable that is read when the
 * library is loaded. Each core type therefore gets a copy of the file, because the dynamic linker
 * identifies libraries by inode.
 */
#include "bench/kernels/peers.h"
#include "runtime/base/array.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TYPES_MAX = 16 };

/* The CPU features that a core type's kernels need; without them the program would be killed. */
typedef enum needs { AVX2, AVX512, AVX512_BF16 } needs;
typedef struct core_type {
    const char *name;
    needs needs;
} core_type;

typedef struct blas_library {
    const char *name, *file, *serial_file, *variable;
    core_type types[TYPES_MAX];
} blas_library;

/* Every core type whose instructions a CPU of level v3 or above may have: AMD types before Zen use
 * FMA4. */
static const blas_library libraries[] = {
    {"OpenBLAS",
     "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
     "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0",
     "OPENBLAS_CORETYPE",
     {{"Haswell", AVX2},
      {"Zen", AVX2},
      {"SkylakeX", AVX512},
      {"Cooperlake", AVX512_BF16},
      {"Sapphirerapids", AVX512_BF16},
      {"Sandybridge", AVX2},
      {"Nehalem", AVX2},
      {"Core2", AVX2},
      {"Prescott", AVX2}}},
    /* core type numbers are those of arch_t in BLIS 0.9: skx, haswell, zen3, zen2, zen */
    {"BLIS",
     "/usr/lib/x86_64-linux-gnu/blis-pthread/libblis.so.4",
     "/usr/lib/x86_64-linux-gnu/blis-serial/libblis.so.4",
     "BLIS_ARCH_TYPE",
     {{"0", AVX512}, {"3", AVX2}, {"6", AVX2}, {"7", AVX2}, {"8", AVX2}}},
};

static bool can_run(needs wanted) {
    switch (wanted) {
    case AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    case AVX512_BF16:
        return __builtin_cpu_supports("avx512bf16");
    }
    return false;
}

typedef struct prepared {
    const peer *library;
    peer_matmul problem;
} prepared;

/* A BLAS is column-major: it computes the transpose of C from the transposes of B and A. */
static void run_sgemm(void *user) {
    const prepared *p = user;
    const int m = (int)p->problem.m, n = (int)p->problem.n, k = (int)p->problem.k;
    const float one = 1, zero = 0;
    p->library->sgemm("N", "N", &n, &m, &k, &one, p->problem.b, &n, p->problem.a, &k, &zero,
                      p->problem.c, &n);
}

static void *prepare_sgemm(const peer *self, const peer_matmul *problem) {
    prepared *p = malloc(sizeof *p);
    if (p) *p = (prepared){self, *problem};
    return p;
}

static bool copy_file(const char *from, const char *to) {
    struct stat stat;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return false;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool done = out >= 0 && fstat(in, &stat) == 0;
    for (off_t at = 0; done && at < stat.st_size;)
        done = sendfile(out, in, &at, (size_t)(stat.st_size - at)) > 0;
    close(in);
    if (out >= 0) close(out);
    return done;
}

/* The peer must outlive `prepared`, because `prepared` points to the caller's array element. */
static bool open_one(const blas_library *library, const char *type, const char *folder,
                     unsigned threads, peer *out_peer) {
    char path[512], count[16];
    snprintf(path, sizeof path, "%s/%s-%s.so", folder, library->name, type);
    if (!copy_file(threads == 1 ? library->serial_file : library->file, path)) return false;
    snprintf(count, sizeof count, "%u", threads);
    setenv(library->variable, type, 1);
    setenv("OPENBLAS_NUM_THREADS", count, 1);
    setenv("BLIS_NUM_THREADS", count, 1);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    unsetenv(library->variable);
    void *symbol = handle ? dlsym(handle, "sgemm_") : NULL;
    if (!symbol) return false;
    *out_peer = (peer){.prepare = prepare_sgemm, .run = run_sgemm, .release = free};
    snprintf(out_peer->name, sizeof out_peer->name, "%s %s", library->name, type);
    memcpy(&out_peer->sgemm, &symbol, sizeof symbol);
    return true;
}

size_t peers_open_blas(const char *folder, unsigned threads, peer *peers, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < TSR_COUNT(libraries); i++)
        for (size_t t = 0; t < TYPES_MAX && libraries[i].types[t].name && count < capacity; t++)
            if (can_run(libraries[i].types[t].needs))
                count += open_one(&libraries[i], libraries[i].types[t].name, folder, threads,
                                  &peers[count]);
    return count;
}
