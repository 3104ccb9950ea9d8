/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/fake_gpu.h"

#include "runtime/base/clock.h"
#include "runtime/device/cuda_ptx.h"
#include "runtime/device/gpu/driver.h"
#include "runtime/transport/tree.h"
#include "tests/base/sweep.h"
#include "tests/runtime/fake_gpu_internal.h"
#include "tests/runtime/toy.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    LANES_MAX = 4
};

/* The kernels of the toy; the last one of its form for several ranks. */
enum { TOY_KERNELS = 4 };
static const unsigned argument_counts[TOY_KERNELS] = {4, 3, 2, 3};
static const char *const kernel_names[TOY_KERNELS] = {"mean", "update", "twice", "add"};
/* The runtime's own kernels. */
#define LEAVES ((struct tsr_gpu_function *)(uintptr_t)100)
#define NORMALS ((struct tsr_gpu_function *)(uintptr_t)101)
#define RATE ((struct tsr_gpu_function *)(uintptr_t)102)
enum { COMBINE_FIRST = 200 }; /* a function for each reduction */

struct tsr_gpu_event {
    uint32_t recorded, reached; /* records in streams outside of graphs; those that are done */
    uint64_t time_ns;
    int launches;
    struct tsr_gpu_stream *stream; /* the stream that recorded it */
    int capture;                   /* number of the capture that recorded it; 0: none */
    int lane, done;                /* the recording lane; its number of earlier steps */
};
/* Lanes: the captured stream, and the streams that wait for it. */
struct tsr_gpu_graph {
    fake_step *steps;
    int count, lane_count;
    struct tsr_gpu_stream *lanes[LANES_MAX];
};
/* Work that waits for a word, or comes after such work. */
struct tsr_gpu_stream {
    struct tsr_gpu_stream *next; /* of all streams */
    fake_step *queue;
    int begin, end;
};
struct tsr_gpu_graph_exec {
    struct tsr_gpu_graph graph;
};
static struct tsr_gpu_graph *captured; /* graph of the active capture */
static char context, module;
static struct tsr_gpu_stream *streams; /* all of them */
/* Threads upload weights together, each by a stream of its own. */
static pthread_mutex_t queues = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct tsr_gpu_stream *copying; /* has a copy that no stream waits for; or NULL */

unsigned fake_fails(const char *symbol) {
    if (fake.stuck) return fake.stuck;
    if (!fake.fail || strcmp(fake.fail, symbol) != 0 || ++fake.calls != fake.fail_at) return 0;
    if (fake.sticks && fake.fail_code != TSR_GPU_ERROR_OUT_OF_MEMORY) fake.stuck = fake.fail_code;
    return fake.fail_code;
}

__attribute__((constructor)) static void obey(void) {
    static char fail[64];
    const char *text = getenv(fake_told);
    while (text && *text) {
        uint64_t value = 0;
        char key[16] = "";
        if (sscanf(text, " %15[a-z]=%" SCNu64, key, &value) == 2) {
            if (strcmp(key, "version") == 0) fake.version = (int)value;
            if (strcmp(key, "devices") == 0) fake.device_count = (int)value;
            if (strcmp(key, "first") == 0) fake.first = (int)value;
            if (strcmp(key, "free") == 0) fake.free_bytes = (size_t)value;
            if (strcmp(key, "major") == 0) fake.major = (int)value;
            if (strcmp(key, "second") == 0) fake.second_major = (int)value;
            if (strcmp(key, "windows") == 0) fake.no_windows = value == 0;
            if (strcmp(key, "reaches") == 0) fake.no_access = value == 0;
            if (strcmp(key, "any") == 0) fake.any_kernel = value != 0;
            if (strcmp(key, "early") == 0) fake.early = value != 0;
            if (strcmp(key, "at") == 0) fake.fail_at = (unsigned)value;
            if (strcmp(key, "code") == 0) fake.fail_code = (unsigned)value;
        } else if (sscanf(text, " arch=%31s", fake.arch) == 1) {
            /* read above */
        } else if (sscanf(text, " fail=%63s", fail) == 1) {
            fake.fail = fail;
            fake.sticks = true;
        }
        text += strspn(text, " ");
        text += strcspn(text, " ");
    }
}
static void run_graph(const struct tsr_gpu_graph *graph);

/* Appends a copy of the step. */
static void append(fake_step **inout_steps, int *inout_count, const fake_step *s) {
    const int count = *inout_count;
    if ((count & (count - 1)) == 0) /* all powers of two, and 0 */
        *inout_steps =
            realloc(*inout_steps, (count ? 2 * (size_t)count : 1) * sizeof **inout_steps);
    if (!*inout_steps) abort();
    (*inout_steps)[(*inout_count)++] = *s;
    if (s->arguments) s->arguments->uses++;
}

static void drop(const fake_step *s) {
    if (s->arguments && --s->arguments->uses == 0) free(s->arguments);
}

static void destroy_graph(struct tsr_gpu_graph *graph) {
    for (int i = 0; i < graph->count; i++) drop(&graph->steps[i]);
    free(graph->steps);
}

static tsr_kernel_fn find_kernel(int number) {
    if (number < 3) return toy_kernels[number];
    return number < TOY_KERNELS ? toy_add : fake.kernels[number - TOY_KERNELS].run;
}

static void set_word(const fake_step *s) {
    __atomic_store_n((uint32_t *)s->to, s->word, __ATOMIC_RELEASE);
}

static const fake_step *perform(const fake_step *s) {
    if (s->kind == GRAPH) run_graph(&s->exec->graph);
    if (s->kind == SET) set_word(s);
    if (s->kind == COMBINE)
        tsr_tree_combine((tsr_reduction)s->kernel, s->to, s->from, s->buffers[0], s->size_bytes);
    if (s->kind == STAMP && s->event->reached != s->event->recorded) s->event->reached++;
    if (s->kind == MOVE) memcpy(s->to, s->from, s->size_bytes);
    if (s->kind == STAMP) s->event->time_ns = tsr_clock_ns();
    if (s->kind == STAMP) s->event->launches = fake.launches;
    if (s->kind == FILL) memset(s->to, s->value, s->size_bytes);
    if (s->kind == LAUNCH) {
        const tsr_kernel_args args = {s->code ? s->arguments->buffers : s->buffers, s->fault};
        toy_limit = fake.toy_limit;
        fake.launches++;
        (s->code ? s->code->run : find_kernel(s->kernel))(&args, 0, s->grid);
    }
    return s;
}

/* Returns the stream's lane in the active capture; -1: it is not captured. */
static int lane_of(const struct tsr_gpu_stream *stream) {
    for (int i = 0; captured && i < captured->lane_count; i++)
        if (captured->lanes[i] == stream) return i;
    return -1;
}

static bool is_ready(const fake_step *s) {
    if (s->kind == AWAIT_EVENT) return (int32_t)(s->event->reached - s->word) >= 0;
    if (s->kind != AWAIT) return true;
    return (int32_t)(__atomic_load_n((uint32_t *)s->to, __ATOMIC_ACQUIRE) - s->word) >= 0;
}

/* Runs what can run in each stream. */
static void advance_streams(void) {
    bool some = true;
    pthread_mutex_lock(&queues);
    while (some) {
        some = false;
        for (struct tsr_gpu_stream *s = streams; s; s = s->next)
            for (; s->begin < s->end && is_ready(&s->queue[s->begin]); some = true)
                drop(perform(&s->queue[s->begin++]));
    }
    pthread_mutex_unlock(&queues);
}

static bool is_idle(const struct tsr_gpu_stream *s) { return s->begin == s->end; }

static tsr_gpu_result enqueue(struct tsr_gpu_stream *s, const fake_step *next) {
    pthread_mutex_lock(&queues);
    advance_streams();
    if (is_idle(s)) {
        free(s->queue);
        s->queue = NULL;
        s->begin = s->end = 0;
    }
    append(&s->queue, &s->end, next);
    advance_streams();
    pthread_mutex_unlock(&queues);
    return 0;
}

tsr_gpu_result fake_submit(struct tsr_gpu_stream *stream, const fake_step *s) {
    int lane = lane_of(stream);
    if (lane < 0) return enqueue(stream, s);
    append(&captured->steps, &captured->count, s);
    captured->steps[captured->count - 1].lane = lane;
    return 0;
}

/* ---- graphs ---- */

static int count_steps(const struct tsr_gpu_graph *graph, int lane) {
    int count = 0;
    for (int i = 0; i < graph->count; i++) count += graph->steps[i].lane == lane;
    return count;
}

/* True if the first lane waits for all steps of the other lanes. */
static bool is_joined(const struct tsr_gpu_graph *graph) {
    for (int lane = 1; lane < graph->lane_count; lane++) {
        int joined = 0;
        for (int i = 0; i < graph->count; i++) {
            const fake_step *s = &graph->steps[i];
            if (s->kind == WAIT && s->lane == 0 && s->of == lane && s->done > joined)
                joined = s->done;
        }
        if (joined < count_steps(graph, lane)) return false;
    }
    return true;
}

/* The progress of each lane. */
typedef struct run {
    const struct tsr_gpu_graph *graph;
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
    const struct tsr_gpu_graph *graph = r->graph;
    int *next = &r->next[lane];
    while (*next < graph->count && graph->steps[*next].lane != lane) ++*next;
    if (*next == graph->count) return false;
    const fake_step *s = &graph->steps[*next];
    if (s->kind == WAIT && forces) run_until(r, s->of, s->done);
    if (s->kind == WAIT && r->done[s->of] < s->done) return false;
    ++*next;
    perform(s);
    fake.concurrent_moves += lane > 0 && s->kind == MOVE;
    r->done[lane]++;
    return true;
}

/* The other lanes run as early as possible, or as late as possible. */
static void run_graph(const struct tsr_gpu_graph *graph) {
    run r = {.graph = graph};
    do {
        for (int lane = 1; fake.early && lane < graph->lane_count; lane++)
            while (advance(&r, lane, false)) {
            }
    } while (advance(&r, 0, true));
    for (int lane = 1; lane < graph->lane_count; lane++) run_until(&r, lane, graph->count);
}

/* ---- the driver's functions ---- */

void *fake_pointer(tsr_gpu_address address) { return (void *)(uintptr_t)address; }

tsr_gpu_result fake_init(unsigned flags) {
    CHECK(init);
    return flags ? INVALID_VALUE : fake.device_count ? 0 : fake_no_device;
}

tsr_gpu_result fake_driver_version(int *version) {
    CHECK(driver_version);
    *version = fake.version;
    return 0;
}

tsr_gpu_result fake_device_count(int *count) {
    CHECK(device_count);
    *count = fake.device_count;
    return 0;
}

tsr_gpu_result fake_device_get(int *device, int ordinal) {
    CHECK(device_get);
    ordinal += fake.first;
    if (ordinal >= fake.first + fake.device_count || ordinal >= FAKE_DEVICE_MAX)
        return INVALID_VALUE;
    *device = FAKE_DEVICE + ordinal;
    return 0;
}

tsr_gpu_result fake_device_name(char *name, int size, int device) {
    CHECK(device_name);
    snprintf(name, (size_t)size, "Fake %c", 'A' + device - FAKE_DEVICE);
    return 0;
}

tsr_gpu_result fake_device_uuid(struct tsr_gpu_uuid *uuid, int device) {
    CHECK(device_uuid);
    for (int i = 0; i < TSR_GPU_UUID_BYTES; i++)
        ((unsigned char *)(void *)uuid)[i] = (unsigned char)(16 * (device - FAKE_DEVICE) + i);
    return 0;
}

tsr_gpu_result fake_device_bus(char *text, int size, int device) {
    CHECK(device_bus);
    snprintf(text, (size_t)size, "0000:%X:00.0", 0x1b + device - FAKE_DEVICE);
    return 0;
}

tsr_gpu_result fake_context_retain(struct tsr_gpu_context **out_context, int device) {
    CHECK(context_retain);
    (void)device;
    fake.contexts++;
    *out_context = (struct tsr_gpu_context *)(void *)&context;
    return 0;
}

tsr_gpu_result fake_context_release(int device) {
    (void)device;
    fake.contexts--;
    return 0;
}

tsr_gpu_result fake_context_set(struct tsr_gpu_context *current) {
    CHECK(context_set);
    return (void *)current == &context ? 0 : INVALID_VALUE;
}

tsr_gpu_result fake_module_load(struct tsr_gpu_module **out_module, const void *image,
                                unsigned option_count, tsr_gpu_enum *options, void **values) {
    if (fake_fails(fake_symbol_module_load)) {
        if (option_count && options[0] == TSR_GPU_JIT_ERROR_LOG_BUFFER)
            snprintf(values[0], 16, "line 1: bad");
        return fake.fail_code;
    }
    memcpy(fake.image_begin, image, sizeof fake.image_begin - 1);
    fake.modules++;
    *out_module = fake_load_code(image);
    if (!*out_module) *out_module = (struct tsr_gpu_module *)(void *)&module;
    return 0;
}

tsr_gpu_result fake_module_unload(struct tsr_gpu_module *loaded) {
    (void)loaded;
    fake.modules--;
    return 0;
}

tsr_gpu_result fake_module_function(struct tsr_gpu_function **function,
                                    struct tsr_gpu_module *loaded, const char *name) {
    CHECK(module_function);
    if (loaded != (struct tsr_gpu_module *)(void *)&module) {
        const fake_kernel *code = fake_find_code(loaded, name);
        *function = (struct tsr_gpu_function *)(uintptr_t)code;
        return code ? 0 : NOT_FOUND;
    }
    if (strcmp(name, TSR_CUDA_PTX_LEAVES) == 0 || strcmp(name, TSR_CUDA_PTX_NORMALS) == 0) {
        *function = strcmp(name, TSR_CUDA_PTX_LEAVES) == 0 ? LEAVES : NORMALS;
        return 0;
    }
    if (strcmp(name, TSR_CUDA_PTX_RATE) == 0) {
        *function = RATE;
        return 0;
    }
    for (unsigned i = 0; i < TSR_REDUCTION_COUNT; i++)
        if (strcmp(name, tsr_cuda_ptx_combine_name((tsr_reduction)i)) == 0) {
            *function = (struct tsr_gpu_function *)(uintptr_t)(COMBINE_FIRST + i);
            return 0;
        }
    for (size_t i = 0; i < TOY_KERNELS; i++)
        if (strcmp(name, kernel_names[i]) == 0) {
            *function = (struct tsr_gpu_function *)(uintptr_t)(i + 1);
            return 0;
        }
    for (size_t i = 0; fake.kernels && fake.kernels[i].name; i++)
        if (strcmp(name, fake.kernels[i].name) == 0) {
            *function = (struct tsr_gpu_function *)(uintptr_t)(TOY_KERNELS + i + 1);
            return 0;
        }
    if (!fake.any_kernel) return NOT_FOUND;
    *function = FAKE_NOTHING;
    return 0;
}

unsigned fake_cluster_of(const struct tsr_gpu_function *function) {
    return fake_has_clusters && (uintptr_t)function == 3 ? 2 : 1;
}

unsigned fake_count_arguments(int kernel) {
    return kernel < TOY_KERNELS ? argument_counts[kernel]
                                : fake.kernels[kernel - TOY_KERNELS].argument_count;
}

tsr_gpu_result fake_memory_info(size_t *free_bytes, size_t *total_bytes) {
    CHECK(memory_info);
    if (!fake.contexts) return INVALID_CONTEXT;
    *free_bytes = fake.free_bytes;
    *total_bytes = 1 << 20;
    return 0;
}

/* Memory that was never written is not zero; in the sanitized build, its first part. */
void *fake_poisoned(size_t size_bytes) {
    void *memory = malloc(size_bytes ? size_bytes : 1);
    /* AddressSanitizer returns large blocks to the kernel, so each page would fault again. */
    size_t filled = size_bytes / SWEEP_STEP(64);
    if (memory) memset(memory, 0xa5, filled);
    return memory;
}

tsr_gpu_result fake_host_register(void *memory, size_t size_bytes, unsigned flags) {
    CHECK(host_register);
    if (!memory || !size_bytes || flags || (uintptr_t)memory % 4096) return INVALID_VALUE;
    fake.hosts++;
    return 0;
}

tsr_gpu_result fake_host_unregister(void *memory) {
    (void)memory;
    fake.hosts--;
    return 0;
}

tsr_gpu_result fake_host_allocate(void **memory, size_t size_bytes, unsigned flags) {
    CHECK(host_allocate);
    (void)flags;
    *memory = fake_poisoned(size_bytes);
    fake.hosts++;
    return 0;
}

tsr_gpu_result fake_host_free(void *memory) {
    free(memory);
    fake.hosts--;
    return 0;
}

tsr_gpu_result fake_upload(tsr_gpu_address to, const void *from, size_t size_bytes,
                           struct tsr_gpu_stream *s) {
    CHECK(upload);
    return fake_submit(
        s,
        &(fake_step){.kind = MOVE, .to = fake_pointer(to), .from = from, .size_bytes = size_bytes});
}

tsr_gpu_result fake_download(void *to, tsr_gpu_address from, size_t size_bytes,
                             struct tsr_gpu_stream *s) {
    CHECK(download);
    void (*call)(void) = captured ? NULL : fake.in_download;
    fake.downloads += !captured;
    if (call) {
        fake.in_download = NULL;
        memcpy(to, fake_pointer(from), size_bytes / 2);
        call();
        memcpy((char *)to + size_bytes / 2, (char *)fake_pointer(from) + size_bytes / 2,
               size_bytes - size_bytes / 2);
        return 0;
    }
    return fake_submit(
        s,
        &(fake_step){.kind = MOVE, .to = to, .from = fake_pointer(from), .size_bytes = size_bytes});
}

tsr_gpu_result fake_copy(tsr_gpu_address to, tsr_gpu_address from, size_t size_bytes,
                         struct tsr_gpu_stream *s) {
    CHECK(copy);
    fake.copies += !captured;
    if (!captured && !fake_is_foreign(fake_pointer(to))) copying = s;
    return fake_submit(s, &(fake_step){.kind = MOVE,
                                       .to = fake_pointer(to),
                                       .from = fake_pointer(from),
                                       .size_bytes = size_bytes});
}

tsr_gpu_result fake_set_bytes(tsr_gpu_address to, unsigned char value, size_t size_bytes,
                              struct tsr_gpu_stream *s) {
    CHECK(set_bytes);
    return fake_submit(
        s, &(fake_step){
               .kind = FILL, .to = fake_pointer(to), .value = value, .size_bytes = size_bytes});
}

tsr_gpu_result fake_stream_create(struct tsr_gpu_stream **out_stream, unsigned flags) {
    CHECK(stream_create);
    (void)flags;
    *out_stream = calloc(1, sizeof **out_stream);
    (*out_stream)->next = streams;
    streams = *out_stream;
    fake.streams++;
    return 0;
}

tsr_gpu_result fake_stream_destroy(struct tsr_gpu_stream *s) {
    struct tsr_gpu_stream **at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (copying == s) copying = NULL;
    free(s->queue);
    free(s);
    fake.streams--;
    return 0;
}

tsr_gpu_result fake_stream_wait(struct tsr_gpu_stream *s) {
    CHECK(stream_wait);
    if (!s) return 0; /* the default stream has no work */
    void (*call)(void) = fake.in_wait;
    fake.in_wait = NULL;
    if (call) call();
    if (copying == s) copying = NULL;
    if (captured) return INVALID_VALUE;
    for (advance_streams(); !is_idle(s); advance_streams()) sched_yield();
    return 0;
}

tsr_gpu_result fake_stream_query(struct tsr_gpu_stream *s) {
    CHECK(stream_query);
    advance_streams();
    if (!is_idle(s)) return TSR_GPU_ERROR_NOT_READY;
    if (copying == s) copying = NULL;
    return 0;
}

/* A stream that waits for a captured event is captured, too. */
static tsr_gpu_result wait_captured(struct tsr_gpu_stream *s, const struct tsr_gpu_event *event) {
    if (event->capture != fake.captures) return CAPTURE_ISOLATION;
    if (lane_of(s) < 0) {
        if (captured->lane_count == LANES_MAX) return INVALID_VALUE;
        captured->lanes[captured->lane_count++] = s;
    }
    return fake_submit(s, &(fake_step){.kind = WAIT, .of = event->lane, .done = event->done});
}

tsr_gpu_result fake_stream_wait_event(struct tsr_gpu_stream *s, struct tsr_gpu_event *event,
                                      unsigned flags) {
    CHECK(stream_wait_event);
    if (!event || flags) return INVALID_VALUE;
    if (captured) return wait_captured(s, event);
    if (event->capture) return CAPTURE_ISOLATION;
    if (event->stream == copying && s != copying) copying = NULL;
    return fake_submit(s,
                       &(fake_step){.kind = AWAIT_EVENT, .event = event, .word = event->recorded});
}

tsr_gpu_result fake_event_create(struct tsr_gpu_event **event, unsigned flags) {
    CHECK(event_create);
    if (flags & ~3u) return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    fake.events++;
    return 0;
}

tsr_gpu_result fake_event_destroy(struct tsr_gpu_event *event) {
    free(event);
    fake.events--;
    return 0;
}

tsr_gpu_result fake_event_wait(struct tsr_gpu_event *event) {
    CHECK(event_wait);
    if (!event) return INVALID_VALUE;
    for (advance_streams(); event->reached != event->recorded; advance_streams()) sched_yield();
    fake.waited_launches = event->launches;
    return 0;
}

tsr_gpu_result fake_event_query(struct tsr_gpu_event *event) {
    CHECK(event_query);
    advance_streams();
    if (event->reached != event->recorded) return TSR_GPU_ERROR_NOT_READY;
    fake.waited_launches = event->launches;
    return 0;
}

/* During a capture the event becomes a node of the graph if it is external; otherwise it marks the
 * current position of the stream. */
static tsr_gpu_result record_event(struct tsr_gpu_event *event, struct tsr_gpu_stream *s,
                                   bool is_external) {
    int lane = lane_of(s);
    event->stream = s;
    event->capture = 0;
    event->recorded += lane < 0;
    if (lane < 0 || is_external) return fake_submit(s, &(fake_step){.kind = STAMP, .event = event});
    event->capture = fake.captures;
    event->lane = lane;
    event->done = count_steps(captured, lane);
    return 0;
}

tsr_gpu_result fake_event_record(struct tsr_gpu_event *event, struct tsr_gpu_stream *s) {
    CHECK(event_record);
    return record_event(event, s, false);
}

/* Outside of captures, the call without flags is used. */
tsr_gpu_result fake_event_record_as(struct tsr_gpu_event *event, struct tsr_gpu_stream *s,
                                    unsigned flags) {
    CHECK(event_record_as);
    if (flags != TSR_GPU_EVENT_RECORD_EXTERNAL || lane_of(s) < 0) return INVALID_VALUE;
    return record_event(event, s, true);
}

tsr_gpu_result fake_event_elapsed(float *milliseconds, struct tsr_gpu_event *begin,
                                  struct tsr_gpu_event *end) {
    CHECK(event_elapsed);
    if (!begin->time_ns || end->time_ns < begin->time_ns) return INVALID_VALUE;
    *milliseconds = (float)(1e-6 * (double)(end->time_ns - begin->time_ns));
    return 0;
}

tsr_gpu_result fake_capture_begin(struct tsr_gpu_stream *s, tsr_gpu_enum mode) {
    CHECK(capture_begin);
    (void)mode;
    captured = calloc(1, sizeof *captured);
    captured->lanes[captured->lane_count++] = s;
    fake.captures++;
    fake.graphs++;
    return 0;
}

tsr_gpu_result fake_capture_end(struct tsr_gpu_stream *s, struct tsr_gpu_graph **graph) {
    bool joined = s == captured->lanes[0] && is_joined(captured);
    *graph = joined ? captured : NULL;
    fake.lanes = captured->lane_count;
    if (!joined) {
        destroy_graph(captured);
        free(captured);
        fake.graphs--;
    }
    captured = NULL;
    if (fake.refuses_captures && joined) {
        destroy_graph(*graph);
        free(*graph);
        *graph = NULL;
        fake.graphs--;
        return CAPTURE_UNSUPPORTED;
    }
    CHECK(capture_end);
    return joined ? 0 : CAPTURE_UNJOINED;
}

tsr_gpu_result fake_graph_instantiate(struct tsr_gpu_graph_exec **exec, struct tsr_gpu_graph *graph,
                                      unsigned long long flags) {
    CHECK(graph_instantiate);
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    (*exec)->graph.lane_count = graph->lane_count;
    for (int i = 0; i < graph->count; i++)
        append(&(*exec)->graph.steps, &(*exec)->graph.count, &graph->steps[i]);
    fake.execs++;
    return 0;
}

tsr_gpu_result fake_graph_launch(struct tsr_gpu_graph_exec *exec, struct tsr_gpu_stream *s) {
    CHECK(graph_launch);
    if (copying && copying != s) return INVALID_VALUE; /* the copied bytes may change */
    return fake_submit(s, &(fake_step){.kind = GRAPH, .exec = exec});
}

tsr_gpu_result fake_graph_exec_destroy(struct tsr_gpu_graph_exec *exec) {
    destroy_graph(&exec->graph);
    free(exec);
    fake.execs--;
    return 0;
}

tsr_gpu_result fake_graph_destroy(struct tsr_gpu_graph *graph) {
    destroy_graph(graph);
    free(graph);
    fake.graphs--;
    return 0;
}

/* The maps follow the number of programs. */
static bool has_maps(void **parameters, int kernel) {
    const unsigned char *map = parameters[fake_count_arguments(kernel) + 3];
    return map[0] == (fake_has_clusters && kernel == 2 ? 0x5a : 0) &&
           map[TSR_GPU_MAP_BYTES - 1] == map[0];
}

static tsr_gpu_result combine(void **parameters, const struct tsr_gpu_function *function,
                              unsigned threads, struct tsr_gpu_stream *s) {
    uint64_t count = *(uint64_t *)parameters[3];
    if (!count || count > threads) return INVALID_VALUE;
    return fake_submit(s, &(fake_step){.kind = COMBINE,
                                       .kernel = (int)((uintptr_t)function - COMBINE_FIRST),
                                       .to = fake_pointer(*(tsr_gpu_address *)parameters[0]),
                                       .from = fake_pointer(*(tsr_gpu_address *)parameters[1]),
                                       .buffers = {fake_pointer(*(tsr_gpu_address *)parameters[2])},
                                       .size_bytes = (size_t)count});
}

/* A function that is code, and not a number. */
static const fake_kernel *find_launched(const struct tsr_gpu_function *function) {
    return (uintptr_t)function > UINT16_MAX ? (const fake_kernel *)(const void *)function : NULL;
}

static tsr_gpu_result launch_code(const struct tsr_gpu_function *function, unsigned blocks,
                                  struct tsr_gpu_stream *s, void **parameters) {
    const fake_kernel *code = find_launched(function);
    unsigned count = code->argument_count;
    fake_arguments *arguments = calloc(1, sizeof *arguments + (count + 1) * sizeof(void *));
    if (!arguments || !blocks) abort();
    for (unsigned i = 0; i < count; i++) arguments->buffers[i] = *(void **)parameters[i];
    arguments->uses = 1;
    fake_step launch = {.kind = LAUNCH,
                        .code = code,
                        .arguments = arguments,
                        .fault = *(tsr_fault **)parameters[count],
                        .grid = *(int64_t *)parameters[count + 2]};
    tsr_gpu_result result = fake_submit(s, &launch);
    drop(&launch);
    return result;
}

tsr_gpu_result fake_launch(struct tsr_gpu_function *function, unsigned grid_x, unsigned grid_y,
                           unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, struct tsr_gpu_stream *s, void **parameters,
                           void **extra) {
    CHECK(launch);
    (void)shared_bytes, (void)extra;
    if (function == LEAVES) return fake_hash_leaves(parameters, grid_x * block_x);
    if (function == RATE || function == FAKE_NOTHING) return 0;
    if (function == NORMALS) return fake_draw_normals(parameters, grid_x * block_x);
    if ((uintptr_t)function >= COMBINE_FIRST && !find_launched(function))
        return combine(parameters, function, grid_x * block_x, s);
    if (find_launched(function)) return launch_code(function, grid_x, s, parameters);
    fake_step launch = {.kind = LAUNCH, .kernel = (int)(uintptr_t)function - 1};
    unsigned count = fake_count_arguments(launch.kernel);
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_y != 1 || block_z != 1 ||
        grid_x % fake_cluster_of(function) || !has_maps(parameters, launch.kernel))
        return INVALID_VALUE;
    if (fake_cluster_of(function) > 1) fake.paired_blocks = (int)grid_x;
    for (unsigned i = 0; i < count; i++) launch.buffers[i] = *(void **)parameters[i];
    launch.fault = *(tsr_fault **)parameters[count];
    launch.grid = *(int64_t *)parameters[count + 2];
    return fake_submit(s, &launch);
}
