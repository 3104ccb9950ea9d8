/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/fake_cuda.h"

#include "runtime/base/clock.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/random/philox.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/cuda_ptx.h"
#include "tests/base/sweep.h"
#include "tests/runtime/toy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Prototypes of the exported functions, from the table. */
#define X(name, symbol, parameters) EXPORT tsr_cuda_result symbol parameters;
#include "runtime/device/cuda_driver.def"
#undef X

EXPORT extern fake_cuda fake;
fake_cuda fake = {
    .version = 13000, .device_count = 2, .major = 9, .free_bytes = 1 << 20, .toy_limit = 256};

enum {
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    DEVICE_MAX = 8,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    STEPS_MAX = 128,
    LANES_MAX = 4,
    ARGUMENTS_MAX = 8
};

static const unsigned argument_counts[] = {4, 3, 2}; /* number of arguments of each toy kernel */
static const char *const kernel_names[] = {"mean", "update", "twice"};
/* The runtime's own kernels. */
#define LEAVES ((struct CUfunc_st *)(uintptr_t)100)
#define NORMALS ((struct CUfunc_st *)(uintptr_t)101)
#define RATE ((struct CUfunc_st *)(uintptr_t)102)

/* One captured call. */
typedef struct step {
    enum { LAUNCH, MOVE, FILL, STAMP, WAIT } kind;
    int lane;     /* index of the step's lane in the graph */
    int of, done; /* WAIT: until `done` steps of lane `of` are done */
    int kernel;
    void *buffers[ARGUMENTS_MAX];
    tsr_fault *fault;
    int64_t grid;
    void *to;
    const void *from;
    size_t size_bytes;
    unsigned char value;
    struct CUevent_st *event;
} step;
struct CUevent_st {
    uint64_t time_ns;
    int launches;
    struct CUstream_st *stream; /* the stream that recorded it */
    int capture;                /* number of the capture that recorded it; 0: none */
    int lane, done;             /* the recording lane; its number of earlier steps */
};
/* Lanes: the captured stream, and the streams that wait for it. */
struct CUgraph_st {
    step steps[STEPS_MAX];
    int count, lane_count;
    struct CUstream_st *lanes[LANES_MAX];
};
struct CUstream_st {
    char any;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};
static struct CUgraph_st *captured; /* graph of the active capture */
static char context, module;
static struct CUstream_st *copying; /* has a copy that no stream waits for; or NULL */

static unsigned fails(const char *symbol) {
    if (fake.stuck) return fake.stuck;
    if (!fake.fail || strcmp(fake.fail, symbol) != 0 || ++fake.calls != fake.fail_at) return 0;
    if (fake.sticks && fake.fail_code != TSR_CUDA_ERROR_OUT_OF_MEMORY) fake.stuck = fake.fail_code;
    return fake.fail_code;
}

__attribute__((constructor)) static void obey(void) {
    static char fail[64];
    const char *text = getenv("FAKE_CUDA_TOLD");
    while (text && *text) {
        uint64_t value = 0;
        char key[16] = "";
        if (sscanf(text, " %15[a-z]=%" SCNu64, key, &value) == 2) {
            if (strcmp(key, "version") == 0) fake.version = (int)value;
            if (strcmp(key, "devices") == 0) fake.device_count = (int)value;
            if (strcmp(key, "free") == 0) fake.free_bytes = (size_t)value;
            if (strcmp(key, "major") == 0) fake.major = (int)value;
            if (strcmp(key, "any") == 0) fake.any_kernel = value != 0;
            if (strcmp(key, "early") == 0) fake.early = value != 0;
            if (strcmp(key, "at") == 0) fake.fail_at = (unsigned)value;
            if (strcmp(key, "code") == 0) fake.fail_code = (unsigned)value;
        } else if (sscanf(text, " fail=%63s", fail) == 1) {
            fake.fail = fail;
            fake.sticks = true;
        }
        text += strspn(text, " ");
        text += strcspn(text, " ");
    }
}
#define CHECK(symbol)                                                                              \
    do {                                                                                           \
        unsigned code_ = fails(#symbol);                                                           \
        if (code_) return code_;                                                                   \
    } while (0)

static tsr_cuda_result perform(const step *s) {
    if (s->kind == MOVE) memcpy(s->to, s->from, s->size_bytes);
    if (s->kind == STAMP) s->event->time_ns = tsr_clock_ns();
    if (s->kind == STAMP) s->event->launches = fake.launches;
    if (s->kind == FILL) memset(s->to, s->value, s->size_bytes);
    if (s->kind == LAUNCH) {
        const tsr_kernel_args args = {s->buffers, s->fault};
        toy_limit = fake.toy_limit;
        fake.launches++;
        toy_kernels[s->kernel](&args, 0, s->grid);
    }
    return 0;
}

/* Returns the stream's lane in the active capture; -1: it is not captured. */
static int lane_of(const struct CUstream_st *stream) {
    for (int i = 0; captured && i < captured->lane_count; i++)
        if (captured->lanes[i] == stream) return i;
    return -1;
}

static tsr_cuda_result submit(const struct CUstream_st *stream, const step *s) {
    int lane = lane_of(stream);
    if (lane < 0) return perform(s);
    if (captured->count == STEPS_MAX) return INVALID_VALUE;
    captured->steps[captured->count] = *s;
    captured->steps[captured->count++].lane = lane;
    return 0;
}

/* ---- graphs ---- */

static int count_steps(const struct CUgraph_st *graph, int lane) {
    int count = 0;
    for (int i = 0; i < graph->count; i++) count += graph->steps[i].lane == lane;
    return count;
}

/* True if the first lane waits for all steps of the other lanes. */
static bool is_joined(const struct CUgraph_st *graph) {
    for (int lane = 1; lane < graph->lane_count; lane++) {
        int joined = 0;
        for (int i = 0; i < graph->count; i++) {
            const step *s = &graph->steps[i];
            if (s->kind == WAIT && s->lane == 0 && s->of == lane && s->done > joined)
                joined = s->done;
        }
        if (joined < count_steps(graph, lane)) return false;
    }
    return true;
}

/* The progress of each lane. */
typedef struct run {
    const struct CUgraph_st *graph;
    int next[LANES_MAX], done[LANES_MAX]; /* next step of the graph; completed steps of the lane */
} run;

static bool advance(run *r, int lane, bool forces);

static void run_until(run *r, int lane, int done) {
    while (r->done[lane] < done && advance(r, lane, true)) {
    }
}

/* Runs one step of a lane if the step that it waits for is done. With `forces`, runs that step
 * first. */
static bool advance(run *r, int lane, bool forces) {
    const struct CUgraph_st *graph = r->graph;
    int *next = &r->next[lane];
    while (*next < graph->count && graph->steps[*next].lane != lane) ++*next;
    if (*next == graph->count) return false;
    const step *s = &graph->steps[*next];
    if (s->kind == WAIT && forces) run_until(r, s->of, s->done);
    if (s->kind == WAIT && r->done[s->of] < s->done) return false;
    ++*next;
    perform(s);
    fake.concurrent_moves += lane > 0 && s->kind == MOVE;
    r->done[lane]++;
    return true;
}

/* The other lanes run as early as possible, or as late as possible. */
static void run_graph(const struct CUgraph_st *graph) {
    run r = {.graph = graph};
    do {
        for (int lane = 1; fake.early && lane < graph->lane_count; lane++)
            while (advance(&r, lane, false)) {
            }
    } while (advance(&r, 0, true));
    for (int lane = 1; lane < graph->lane_count; lane++) run_until(&r, lane, STEPS_MAX);
}

/* ---- the driver's functions ---- */

static void *pointer(tsr_cuda_address address) { return (void *)(uintptr_t)address; }

tsr_cuda_result cuInit(unsigned flags) {
    CHECK(cuInit);
    return flags ? INVALID_VALUE : fake.device_count ? 0 : TSR_CUDA_ERROR_NO_DEVICE;
}

tsr_cuda_result cuDriverGetVersion(int *version) {
    CHECK(cuDriverGetVersion);
    *version = fake.version;
    return 0;
}

tsr_cuda_result cuGetErrorName(tsr_cuda_result error, const char **text) {
    if (error == TSR_CUDA_ERROR_OUT_OF_MEMORY)
        *text = "CUDA_ERROR_OUT_OF_MEMORY";
    else if (error == 700)
        *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
    else if (error == 214)
        *text = "CUDA_ERROR_ECC_UNCORRECTABLE";
    else
        return INVALID_VALUE;
    return 0;
}

tsr_cuda_result cuDeviceGetCount(int *count) {
    CHECK(cuDeviceGetCount);
    *count = fake.device_count;
    return 0;
}

tsr_cuda_result cuDeviceGet(int *device, int ordinal) {
    CHECK(cuDeviceGet);
    if (ordinal >= fake.device_count || ordinal >= DEVICE_MAX) return INVALID_VALUE;
    *device = 40 + ordinal;
    return 0;
}

tsr_cuda_result cuDeviceGetName(char *name, int size, int device) {
    CHECK(cuDeviceGetName);
    snprintf(name, (size_t)size, "Fake %c", 'A' + device - 40);
    return 0;
}

tsr_cuda_result cuDeviceGetUuid_v2(struct CUuuid_st *uuid, int device) {
    CHECK(cuDeviceGetUuid_v2);
    for (int i = 0; i < TSR_CUDA_UUID_BYTES; i++)
        ((unsigned char *)(void *)uuid)[i] = (unsigned char)(16 * (device - 40) + i);
    return 0;
}

tsr_cuda_result cuDeviceGetAttribute(int *value, tsr_cuda_enum attribute, int device) {
    CHECK(cuDeviceGetAttribute);
    (void)device;
    *value = attribute == TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? fake.major
             : attribute == TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? fake.minor
                                                                               : 5;
    return 0;
}

tsr_cuda_result cuDevicePrimaryCtxRetain(struct CUctx_st **out_context, int device) {
    CHECK(cuDevicePrimaryCtxRetain);
    (void)device;
    fake.contexts++;
    *out_context = (struct CUctx_st *)(void *)&context;
    return 0;
}

tsr_cuda_result cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    fake.contexts--;
    return 0;
}

tsr_cuda_result cuCtxSetCurrent(struct CUctx_st *current) {
    CHECK(cuCtxSetCurrent);
    return (void *)current == &context ? 0 : INVALID_VALUE;
}

tsr_cuda_result cuModuleLoadDataEx(struct CUmod_st **out_module, const void *image,
                                   unsigned option_count, tsr_cuda_enum *options, void **values) {
    if (fails("cuModuleLoadDataEx")) {
        if (option_count && options[0] == TSR_CUDA_JIT_ERROR_LOG_BUFFER)
            snprintf(values[0], 16, "line 1: bad");
        return fake.fail_code;
    }
    memcpy(fake.image_begin, image, sizeof fake.image_begin - 1);
    fake.modules++;
    *out_module = (struct CUmod_st *)(void *)&module;
    return 0;
}

tsr_cuda_result cuModuleUnload(struct CUmod_st *loaded) {
    (void)loaded;
    fake.modules--;
    return 0;
}

tsr_cuda_result cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *loaded,
                                    const char *name) {
    CHECK(cuModuleGetFunction);
    (void)loaded;
    if (strcmp(name, TSR_CUDA_PTX_LEAVES) == 0 || strcmp(name, TSR_CUDA_PTX_NORMALS) == 0) {
        *function = strcmp(name, TSR_CUDA_PTX_LEAVES) == 0 ? LEAVES : NORMALS;
        return 0;
    }
    if (strcmp(name, TSR_CUDA_PTX_RATE) == 0) {
        *function = RATE;
        return 0;
    }
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, kernel_names[i]) == 0) {
            *function = (struct CUfunc_st *)(uintptr_t)(i + 1);
            return 0;
        }
    if (!fake.any_kernel) return NOT_FOUND;
    *function = (struct CUfunc_st *)(uintptr_t)1;
    return 0;
}

tsr_cuda_result cuFuncSetAttribute(struct CUfunc_st *function, tsr_cuda_enum attribute, int value) {
    CHECK(cuFuncSetAttribute);
    (void)function, (void)value;
    return attribute == TSR_CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? 0 : INVALID_VALUE;
}

/* The last kernel runs in clusters of two blocks. */
static unsigned cluster_of(const struct CUfunc_st *function) {
    return (uintptr_t)function == 3 ? 2 : 1;
}

tsr_cuda_result cuFuncGetAttribute(int *value, tsr_cuda_enum attribute,
                                   struct CUfunc_st *function) {
    CHECK(cuFuncGetAttribute);
    if (attribute != TSR_CUDA_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) return INVALID_VALUE;
    *value = cluster_of(function) > 1 ? 2 : 0;
    return 0;
}

/* The GPU runs one cluster of the last kernel at a time. */
tsr_cuda_result cuOccupancyMaxActiveClusters(int *count, struct CUfunc_st *function,
                                             const struct CUlaunchConfig_st *config) {
    CHECK(cuOccupancyMaxActiveClusters);
    const tsr_cuda_launch *launch = (const tsr_cuda_launch *)config;
    if (cluster_of(function) != 2 || launch->grid_x != 2 || !launch->block_x ||
        launch->attribute_count)
        return INVALID_VALUE;
    *count = 1;
    return 0;
}

/* Buffers, fault record, scratch, program count; the last kernel also has a map. */
tsr_cuda_result cuFuncGetParamInfo(struct CUfunc_st *function, size_t index, size_t *offset_bytes,
                                   size_t *size_bytes) {
    CHECK(cuFuncGetParamInfo);
    size_t kernel = (uintptr_t)function - 1, plain = argument_counts[kernel] + 3u;
    if (index >= plain + (kernel == 2) + (size_t)fake.more) return INVALID_VALUE;
    *offset_bytes = 8 * index;
    *size_bytes = index >= plain                   ? TSR_CUDA_MAP_BYTES
                  : index == 0 && fake.first_bytes ? fake.first_bytes
                                                   : 8;
    return 0;
}

tsr_cuda_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CHECK(cuMemGetInfo_v2);
    if (!fake.contexts) return INVALID_CONTEXT;
    *free_bytes = fake.free_bytes;
    *total_bytes = 1 << 20;
    return 0;
}

/* Memory that was never written is not zero; in the sanitized build, its first part. */
static void *poisoned(size_t size_bytes) {
    void *memory = malloc(size_bytes ? size_bytes : 1);
    /* AddressSanitizer returns large blocks to the kernel, so each page would fault again. */
    size_t filled = size_bytes / SWEEP_STEP(64);
    if (memory) memset(memory, 0xa5, filled);
    return memory;
}

tsr_cuda_result cuMemAllocAsync(tsr_cuda_address *address, size_t size_bytes,
                                struct CUstream_st *s) {
    CHECK(cuMemAllocAsync);
    (void)s;
    *address = (tsr_cuda_address)(uintptr_t)poisoned(size_bytes);
    fake.allocations++;
    return 0;
}

tsr_cuda_result cuMemFreeAsync(tsr_cuda_address address, struct CUstream_st *s) {
    (void)s;
    free(pointer(address));
    fake.allocations--;
    return 0;
}

tsr_cuda_result cuMemHostRegister_v2(void *memory, size_t size_bytes, unsigned flags) {
    CHECK(cuMemHostRegister_v2);
    if (!memory || !size_bytes || flags || (uintptr_t)memory % 4096) return INVALID_VALUE;
    fake.hosts++;
    return 0;
}

tsr_cuda_result cuMemHostUnregister(void *memory) {
    (void)memory;
    fake.hosts--;
    return 0;
}

tsr_cuda_result cuMemHostAlloc(void **memory, size_t size_bytes, unsigned flags) {
    CHECK(cuMemHostAlloc);
    (void)flags;
    *memory = poisoned(size_bytes);
    fake.hosts++;
    return 0;
}

tsr_cuda_result cuMemFreeHost(void *memory) {
    free(memory);
    fake.hosts--;
    return 0;
}

tsr_cuda_result cuMemcpyHtoDAsync_v2(tsr_cuda_address to, const void *from, size_t size_bytes,
                                     struct CUstream_st *s) {
    CHECK(cuMemcpyHtoDAsync_v2);
    return submit(s,
                  &(step){.kind = MOVE, .to = pointer(to), .from = from, .size_bytes = size_bytes});
}

tsr_cuda_result cuMemcpyDtoHAsync_v2(void *to, tsr_cuda_address from, size_t size_bytes,
                                     struct CUstream_st *s) {
    CHECK(cuMemcpyDtoHAsync_v2);
    void (*call)(void) = captured ? NULL : fake.in_download;
    fake.downloads += !captured;
    if (call) {
        fake.in_download = NULL;
        memcpy(to, pointer(from), size_bytes / 2);
        call();
        memcpy((char *)to + size_bytes / 2, (char *)pointer(from) + size_bytes / 2,
               size_bytes - size_bytes / 2);
        return 0;
    }
    return submit(s,
                  &(step){.kind = MOVE, .to = to, .from = pointer(from), .size_bytes = size_bytes});
}

tsr_cuda_result cuMemcpyDtoDAsync_v2(tsr_cuda_address to, tsr_cuda_address from, size_t size_bytes,
                                     struct CUstream_st *s) {
    CHECK(cuMemcpyDtoDAsync_v2);
    fake.copies += !captured;
    if (!captured) copying = s;
    return submit(
        s,
        &(step){.kind = MOVE, .to = pointer(to), .from = pointer(from), .size_bytes = size_bytes});
}

tsr_cuda_result cuMemsetD8Async(tsr_cuda_address to, unsigned char value, size_t size_bytes,
                                struct CUstream_st *s) {
    CHECK(cuMemsetD8Async);
    return submit(
        s, &(step){.kind = FILL, .to = pointer(to), .value = value, .size_bytes = size_bytes});
}

tsr_cuda_result cuStreamCreate(struct CUstream_st **out_stream, unsigned flags) {
    CHECK(cuStreamCreate);
    (void)flags;
    *out_stream = calloc(1, sizeof **out_stream);
    fake.streams++;
    return 0;
}

tsr_cuda_result cuStreamDestroy_v2(struct CUstream_st *s) {
    if (copying == s) copying = NULL;
    free(s);
    fake.streams--;
    return 0;
}

tsr_cuda_result cuStreamSynchronize(struct CUstream_st *s) {
    CHECK(cuStreamSynchronize);
    void (*call)(void) = fake.in_wait;
    fake.in_wait = NULL;
    if (call) call();
    if (copying == s) copying = NULL;
    return captured ? INVALID_VALUE : 0;
}

/* A stream that waits for a captured event is captured, too. */
static tsr_cuda_result wait_captured(struct CUstream_st *s, const struct CUevent_st *event) {
    if (event->capture != fake.captures) return CAPTURE_ISOLATION;
    if (lane_of(s) < 0) {
        if (captured->lane_count == LANES_MAX) return INVALID_VALUE;
        captured->lanes[captured->lane_count++] = s;
    }
    return submit(s, &(step){.kind = WAIT, .of = event->lane, .done = event->done});
}

tsr_cuda_result cuStreamWaitEvent(struct CUstream_st *s, struct CUevent_st *event, unsigned flags) {
    CHECK(cuStreamWaitEvent);
    if (!event || flags) return INVALID_VALUE;
    if (captured) return wait_captured(s, event);
    if (event->capture) return CAPTURE_ISOLATION;
    if (event->stream == copying && s != copying) copying = NULL;
    return 0;
}

tsr_cuda_result cuEventCreate(struct CUevent_st **event, unsigned flags) {
    CHECK(cuEventCreate);
    if (flags & ~3u) return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    fake.events++;
    return 0;
}

tsr_cuda_result cuEventDestroy_v2(struct CUevent_st *event) {
    free(event);
    fake.events--;
    return 0;
}

tsr_cuda_result cuEventSynchronize(struct CUevent_st *event) {
    CHECK(cuEventSynchronize);
    if (!event) return INVALID_VALUE;
    fake.waited_launches = event->launches;
    return 0;
}

/* During a capture the event becomes a node of the graph if the flag is set; otherwise it marks the
 * current position of the stream. */
tsr_cuda_result cuEventRecordWithFlags(struct CUevent_st *event, struct CUstream_st *s,
                                       unsigned flags) {
    CHECK(cuEventRecordWithFlags);
    int lane = lane_of(s);
    event->stream = s;
    event->capture = 0;
    if (lane < 0 || flags == TSR_CUDA_EVENT_RECORD_EXTERNAL)
        return submit(s, &(step){.kind = STAMP, .event = event});
    event->capture = fake.captures;
    event->lane = lane;
    event->done = count_steps(captured, lane);
    return 0;
}

tsr_cuda_result cuEventElapsedTime(float *milliseconds, struct CUevent_st *begin,
                                   struct CUevent_st *end) {
    CHECK(cuEventElapsedTime);
    if (!begin->time_ns || end->time_ns < begin->time_ns) return INVALID_VALUE;
    *milliseconds = (float)(1e-6 * (double)(end->time_ns - begin->time_ns));
    return 0;
}

tsr_cuda_result cuStreamBeginCapture_v2(struct CUstream_st *s, tsr_cuda_enum mode) {
    CHECK(cuStreamBeginCapture_v2);
    (void)mode;
    captured = calloc(1, sizeof *captured);
    captured->lanes[captured->lane_count++] = s;
    fake.captures++;
    fake.graphs++;
    return 0;
}

tsr_cuda_result cuStreamEndCapture(struct CUstream_st *s, struct CUgraph_st **graph) {
    bool joined = s == captured->lanes[0] && is_joined(captured);
    *graph = joined ? captured : NULL;
    fake.lanes = captured->lane_count;
    if (!joined) {
        free(captured);
        fake.graphs--;
    }
    captured = NULL;
    CHECK(cuStreamEndCapture);
    return joined ? 0 : CAPTURE_UNJOINED;
}

tsr_cuda_result cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                            unsigned long long flags) {
    CHECK(cuGraphInstantiateWithFlags);
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    (*exec)->graph = *graph;
    fake.execs++;
    return 0;
}

tsr_cuda_result cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *s) {
    CHECK(cuGraphLaunch);
    if (copying && copying != s) return INVALID_VALUE; /* the copied bytes may change */
    run_graph(&exec->graph);
    return 0;
}

tsr_cuda_result cuGraphExecDestroy(struct CUgraphExec_st *exec) {
    free(exec);
    fake.execs--;
    return 0;
}

tsr_cuda_result cuGraphDestroy(struct CUgraph_st *graph) {
    free(graph);
    fake.graphs--;
    return 0;
}

/* Expects the strides of rows laid out as in the toy; the innermost stride is omitted. */
tsr_cuda_result cuTensorMapEncodeTiled(struct CUtensorMap_st *map, tsr_cuda_enum element,
                                       uint32_t rank, void *address, const uint64_t *dims,
                                       const uint64_t *strides, const uint32_t *box,
                                       const uint32_t *element_strides, tsr_cuda_enum interleave,
                                       tsr_cuda_enum swizzle, tsr_cuda_enum promotion,
                                       tsr_cuda_enum fill) {
    uint64_t stride = element == TSR_CUDA_MAP_FLOAT32 || element == TSR_CUDA_MAP_TFLOAT32 ? 4 : 2;
    CHECK(cuTensorMapEncodeTiled);
    (void)promotion;
    if ((uintptr_t)map % TSR_CUDA_MAP_ALIGN || (uintptr_t)address % 16 || rank < 2 || rank > 5 ||
        interleave || fill || (swizzle == TSR_CUDA_MAP_SWIZZLE_128B && box[0] * stride != 128))
        return INVALID_VALUE;
    for (uint32_t d = 0; d < rank; d++) {
        if (!box[d] || box[d] > 256 || element_strides[d] != 1) return INVALID_VALUE;
        stride *= d ? dims[d] : TOY_PITCH;
        if (d + 1 < rank && (strides[d] != stride || stride % 16)) return INVALID_VALUE;
    }
    memset(map, 0x5a, TSR_CUDA_MAP_BYTES);
    return 0;
}

/* The maps follow the number of programs. */
static bool has_maps(void **parameters, int kernel) {
    const unsigned char *map = parameters[argument_counts[kernel] + 3];
    return map[0] == (kernel == 2 ? 0x5a : 0) && map[TSR_CUDA_MAP_BYTES - 1] == map[0];
}

static tsr_cuda_result hash_leaves(void **parameters, unsigned threads) {
    const char *bytes = pointer(*(tsr_cuda_address *)parameters[0]);
    tsr_digest *digests = pointer(*(tsr_cuda_address *)parameters[1]);
    uint64_t count = *(uint64_t *)parameters[2];
    if (!count || count > threads) return INVALID_VALUE;
    for (uint64_t i = 0; i < count; i++)
        digests[i] = tsr_hash(bytes + i * TSR_HASH_LEAF_BYTES, TSR_HASH_LEAF_BYTES);
    return 0;
}

static tsr_cuda_result draw_normals(void **parameters, unsigned threads) {
    float *to = pointer(*(tsr_cuda_address *)parameters[0]);
    uint64_t first = *(uint64_t *)parameters[1], count = *(uint64_t *)parameters[2];
    double a = *(double *)parameters[3], b = *(double *)parameters[4], normal;
    const uint32_t key[2] = {*(uint32_t *)parameters[5], *(uint32_t *)parameters[6]};
    if (!count || count > threads) return INVALID_VALUE;
    for (uint64_t i = 0; i < count; i++) {
        tsr_philox_normals(key, first + i, 1, &normal);
        to[i] = (float)(a + b * normal);
    }
    return 0;
}

tsr_cuda_result cuLaunchKernel(struct CUfunc_st *function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, struct CUstream_st *s,
                               void **parameters, void **extra) {
    CHECK(cuLaunchKernel);
    (void)shared_bytes, (void)extra;
    if (function == LEAVES) return hash_leaves(parameters, grid_x * block_x);
    if (function == RATE) return 0;
    if (function == NORMALS) return draw_normals(parameters, grid_x * block_x);
    step launch = {.kind = LAUNCH, .kernel = (int)(uintptr_t)function - 1};
    unsigned count = argument_counts[launch.kernel];
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_y != 1 || block_z != 1 ||
        grid_x % cluster_of(function) || !has_maps(parameters, launch.kernel))
        return INVALID_VALUE;
    if (cluster_of(function) > 1) fake.paired_blocks = (int)grid_x;
    for (unsigned i = 0; i < count; i++) launch.buffers[i] = *(void **)parameters[i];
    launch.fault = *(tsr_fault **)parameters[count];
    launch.grid = *(int64_t *)parameters[count + 2];
    return submit(s, &launch);
}
