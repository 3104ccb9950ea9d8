/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the fake driver share.
 */
#ifndef TSR_TESTS_RUNTIME_FAKE_GPU_INTERNAL_H
#define TSR_TESTS_RUNTIME_FAKE_GPU_INTERNAL_H

#include "runtime/device/gpu/driver.h"
#include "tests/runtime/fake_gpu.h"

#define EXPORT __attribute__((visibility("default")))

/* Prototypes of the exported functions: function fake_init has the symbol of that row in the driver
 * that FAKE_SYMBOLS lists. A symbol that a build defines as another one is missing. */
#ifndef FAKE_SYMBOLS
#define FAKE_SYMBOLS "runtime/device/cuda_symbols.def"
#endif
#define TEXT(symbol) #symbol
#define DECLARE(name, symbol)                                                                      \
    EXPORT __typeof__(*(tsr_gpu_##name##_fn)0) fake_##name __asm__(TEXT(symbol));                  \
    __attribute__((unused)) static const char fake_symbol_##name[] = TEXT(symbol);
#define X(name, symbol) DECLARE(name, symbol)
#include FAKE_SYMBOLS
#undef X

EXPORT extern fake_gpu fake;

enum { INVALID_VALUE = 1, FAKE_DEVICE = 40 /* handle of the first one */, FAKE_DEVICE_MAX = 8 };

/* The error with which the next call of this symbol fails; 0: it succeeds. */
unsigned fake_fails(const char *symbol);
#define CHECK(name)                                                                                \
    do {                                                                                           \
        unsigned code_ = fake_fails(fake_symbol_##name);                                           \
        if (code_) return code_;                                                                   \
    } while (0)

enum { FAKE_ARGUMENTS_MAX = 8 };
/* The buffers of a kernel that is code, shared by the copies of a step. */
typedef struct fake_arguments {
    int uses;
    void *buffers[];
} fake_arguments;

/* One captured call. */
typedef struct fake_step {
    enum { LAUNCH, MOVE, FILL, STAMP, WAIT, GRAPH, SET, AWAIT, AWAIT_EVENT, COMBINE } kind;
    int lane;     /* index of the step's lane in the graph */
    int of, done; /* WAIT: until `done` steps of lane `of` are done */
    int kernel;
    void *buffers[FAKE_ARGUMENTS_MAX];
    const fake_kernel *code;   /* LAUNCH of a kernel that is code: instead of `kernel`, */
    fake_arguments *arguments; /* and of `buffers` */
    tsr_fault *fault;
    int64_t grid;
    void *to;
    const void *from;
    size_t size_bytes;
    unsigned char value;
    uint32_t word;
    struct tsr_gpu_event *event;
    struct tsr_gpu_graph_exec *exec;
} fake_step;
/* Puts it into the stream, or into the graph that is captured. */
tsr_gpu_result fake_submit(struct tsr_gpu_stream *stream, const fake_step *s);
/* Memory that was never written is not zero. */
void *fake_poisoned(size_t size_bytes);
void *fake_pointer(tsr_gpu_address address);
/* A kernel with any other name, which does nothing. */
#define FAKE_NOTHING ((struct tsr_gpu_function *)(uintptr_t)103)
unsigned fake_count_arguments(int kernel);
unsigned fake_cluster_of(const struct tsr_gpu_function *function);

/* What differs: fake_cuda.c, fake_hip.c. */
extern const char fake_told[];        /* the environment variable */
extern const unsigned fake_no_device; /* result of init without a device */
extern const bool fake_has_clusters;  /* the third kernel has clusters of two, and a map */
/* Code for the image of a module, and its kernel of that name; NULL: there is none. */
struct tsr_gpu_module *fake_load_code(const void *image);
const fake_kernel *fake_find_code(struct tsr_gpu_module *module, const char *name);
/* memory of another process */
bool fake_is_foreign(const void *address);
/* fake_gpu_kernels.c */
tsr_gpu_result fake_hash_leaves(void **parameters, unsigned threads);
tsr_gpu_result fake_draw_normals(void **parameters, unsigned threads);

#endif
