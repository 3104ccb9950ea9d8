/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of a host compute the GPUs of all of them, so that all find the same errors.
 */
#include "loader/assign.h"

#include "loader/match.h"
#include "runtime/device/device.h"
#include "runtime/transport/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HOST_ID_BYTES = 40, MPOL_PREFERRED_NODE = 1 };

/* What a rank tells the others. */
typedef struct view {
    char host[HOST_ID_BYTES];
    cpu_set_t processors; /* that it may use, together with ranks that have the same ones */
    uint32_t gpu_count;
    tsr_device_gpu gpu; /* the first one that it sees */
} view;

/* The ranks of this host. */
typedef struct assignment {
    const tsr_model_options *options;
    const tsr_device_type *type;
    uint32_t rank, rank_count; /* among the ranks of this host */
    view *views;               /* of these ranks; in the arena, like all here */
    tsr_device_gpu *gpus;
    uint32_t gpu_count;
    const tsr_device_gpu **own; /* one for each rank */
} assignment;

/* ---- ranks of this host ---- */

static view describe_own(const assignment *p) {
    view own = {.processors = tsr_ranks_get_processors(), .gpu_count = p->gpu_count};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(own.host, sizeof own.host, file)) own.host[0] = 0;
        fclose(file);
    }
    if (p->gpu_count) own.gpu = p->gpus[0];
    return own;
}

/* Finds the ranks of this host and what they see. */
static tsr_result find_host(tsr_ctx *ctx, tsr_transport *t, tsr_arena *arena, assignment *p) {
    view *all = TSR_NEW(arena, view, t->rank_count);
    if (!all) FAIL(ctx, TSR_MEMORY, "no memory for the GPUs of %u ranks", t->rank_count);
    const view own = all[t->rank] = describe_own(p);
    TRY(ctx, tsr_all_gather_each(ctx, t, all, sizeof *all));
    p->views = all;
    p->rank = p->rank_count = 0;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (memcmp(all[r].host, own.host, sizeof own.host) != 0) continue;
        p->rank += r < t->rank;
        all[p->rank_count++] = all[r];
    }
    return TSR_SUCCESS;
}

/* ---- GPUs of ranks ---- */

/* "0: NVIDIA H200 (GPU-…), 1: …" */
static const char *list_gpus(const assignment *p, tsr_arena *arena) {
    tsr_buffer text = {0};
    for (uint32_t i = 0; i < p->gpu_count; i++)
        tsr_buffer_printf(&text, "%s%d %s (%s)", i ? ", " : "", p->gpus[i].ordinal, p->gpus[i].uuid,
                          p->gpus[i].name);
    const char *list = text.failed || !text.bytes ? NULL : tsr_arena_strdup(arena, text.bytes);
    tsr_buffer_finish(&text);
    return list ? list : "unknown";
}

static const tsr_device_gpu *find_gpu(const assignment *p, const char *name, size_t length) {
    const tsr_device_gpu *found = NULL;
    for (uint32_t i = 0; i < p->gpu_count; i++) {
        char ordinal[16];
        snprintf(ordinal, sizeof ordinal, "%d", p->gpus[i].ordinal);
        bool by_uuid = length > 4 && strncmp(name, "GPU-", 4) == 0 &&
                       strncmp(p->gpus[i].uuid, name, length) == 0;
        bool by_number = strlen(ordinal) == length && strncmp(ordinal, name, length) == 0;
        if (!by_uuid && !by_number) continue;
        if (found) return NULL; /* the beginning of two UUIDs */
        found = &p->gpus[i];
    }
    return found;
}

/* Gives the GPUs of a list "0,1"; one of fewer than there are ranks only if they may be shared. */
static tsr_result use_list(tsr_ctx *ctx, assignment *p, const char *list, tsr_arena *arena) {
    uint32_t count = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        const tsr_device_gpu *gpu = find_gpu(p, at, length);
        if (!gpu)
            FAIL(ctx, TSR_USAGE,
                 "'%.*s' of the devices '%s' names no GPU, or several; there are %s", (int)length,
                 at, list, list_gpus(p, arena));
        if (count < p->rank_count) p->own[count++] = gpu;
        at += length;
        if (!*at) break;
    }
    if (count < p->rank_count && !p->options->share_device)
        FAIL(ctx, TSR_USAGE,
             "%u ranks need %u GPUs; the devices '%s' are %u; ranks share GPUs with --share-device",
             p->rank_count, p->rank_count, list, count);
    for (uint32_t r = count; r < p->rank_count; r++) p->own[r] = p->own[r % count];
    return TSR_SUCCESS;
}

/* Launchers can show each process one GPU, of its own. */
static bool each_sees_own(const assignment *p) {
    bool differ = false;
    for (uint32_t r = 0; r < p->rank_count; r++) {
        if (p->views[r].gpu_count != 1) return false;
        if (strcmp(p->views[r].gpu.uuid, p->views[0].gpu.uuid) != 0) differ = true;
    }
    return differ;
}

static tsr_result use_order(tsr_ctx *ctx, assignment *p, tsr_arena *arena) {
    if (each_sees_own(p)) {
        for (uint32_t r = 0; r < p->rank_count; r++) p->own[r] = &p->views[r].gpu;
        return TSR_SUCCESS;
    }
    if (p->rank_count > p->gpu_count && !p->options->share_device)
        FAIL(ctx, TSR_USAGE,
             "%u ranks need %u GPUs; there %s %u: %s; ranks share GPUs with --share-device",
             p->rank_count, p->rank_count, p->gpu_count == 1 ? "is" : "are", p->gpu_count,
             list_gpus(p, arena));
    for (uint32_t r = 0; r < p->rank_count; r++) p->own[r] = &p->gpus[r % p->gpu_count];
    return TSR_SUCCESS;
}

static tsr_result refuse_twice(tsr_ctx *ctx, const assignment *p) {
    for (uint32_t r = 0; r < p->rank_count && !p->options->share_device; r++)
        for (uint32_t k = 0; k < r; k++)
            if (strcmp(p->own[r]->uuid, p->own[k]->uuid) == 0)
                FAIL(ctx, TSR_USAGE,
                     "GPU %d, %s (%s), is given to ranks %u and %u; ranks share GPUs with "
                     "--share-device",
                     p->own[r]->ordinal, p->own[r]->name, p->own[r]->uuid, k, r);
    return TSR_SUCCESS;
}

static tsr_result refuse_without_code(tsr_ctx *ctx, const assignment *p, const tsr_bundle *bundle,
                                      tsr_arena *arena) {
    for (uint32_t r = 0; r < p->rank_count; r++) {
        const tsr_device_gpu *gpu = p->own[r];
        size_t target;
        const char *reason;
        tsr_result result = tsr_match_gpu(ctx, bundle, p->type, gpu->arch, arena, &target, &reason);
        if (result.code)
            return tsr_error_prefix(ctx, result, "rank %u has GPU %d, %s (%s)", r, gpu->ordinal,
                                    gpu->name, gpu->uuid);
    }
    return TSR_SUCCESS;
}

static tsr_result choose_gpus(tsr_ctx *ctx, assignment *p, const tsr_bundle *bundle,
                              tsr_arena *arena) {
    const char *device = p->options->device, *colon = strchr(device, ':');
    const char *list = p->options->devices ? p->options->devices : colon ? colon + 1 : NULL;
    if (p->options->devices && colon)
        FAIL(ctx, TSR_USAGE, "device '%s' and the devices '%s' both choose GPUs; give one", device,
             list);
    p->own = TSR_NEW(arena, const tsr_device_gpu *, p->rank_count);
    if (!p->own) FAIL(ctx, TSR_MEMORY, "no memory for the GPUs of %u ranks", p->rank_count);
    TRY(ctx, list ? use_list(ctx, p, list, arena) : use_order(ctx, p, arena));
    TRY(ctx, refuse_twice(ctx, p));
    return refuse_without_code(ctx, p, bundle, arena);
}

/* ---- processors ---- */

bool tsr_assign_parse_processors(const char *text, cpu_set_t *out_processors) {
    cpu_set_t found;
    CPU_ZERO(&found);
    for (const char *at = text;; at++) {
        char *end = NULL;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at) return false;
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            if (end == at) return false;
        }
        if (last < first || last >= CPU_SETSIZE) return false;
        for (unsigned long cpu = first; cpu <= last; cpu++) CPU_SET(cpu, &found);
        at = end;
        if (*at == 0 || *at == '\n') break;
        if (*at != ',') return false;
    }
    *out_processors = found;
    return true;
}

static bool read_line(const char *root, const char *bus, const char *name, char *out, int size) {
    char path[256];
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", root, bus, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool got = fgets(out, size, file) != NULL;
    fclose(file);
    return got;
}

bool tsr_assign_read_near(const char *root, const char *bus, cpu_set_t *out_processors,
                          int *out_node) {
    char processors[4096], node[32];
    if (!read_line(root, bus, "local_cpulist", processors, sizeof processors) ||
        !tsr_assign_parse_processors(processors, out_processors))
        return false;
    *out_node = read_line(root, bus, "numa_node", node, sizeof node) ? atoi(node) : -1;
    return true;
}

cpu_set_t tsr_assign_take_part(const cpu_set_t *all, uint32_t index, uint32_t count) {
    uint32_t members = (uint32_t)CPU_COUNT(all), number = 0;
    cpu_set_t part;
    if (count == 0 || members < count) return *all;
    CPU_ZERO(&part);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, all)) continue;
        if (number >= members * index / count && number < members * (index + 1) / count)
            CPU_SET(cpu, &part);
        number++;
    }
    return part;
}

/* Ranks that may use the same processors, and whose GPUs are near the same ones, divide them
 * evenly. The process keeps its processors if none of the near ones are allowed. */
static void bind_near(const assignment *p) {
    const cpu_set_t allowed = p->views[p->rank].processors;
    cpu_set_t near, other;
    uint32_t index = 0, count = 0;
    int node = -1, other_node = -1;
    if (!tsr_assign_read_near("/sys", p->own[p->rank]->bus, &near, &node)) return;
    for (uint32_t r = 0; r < p->rank_count; r++) {
        if (!tsr_assign_read_near("/sys", p->own[r]->bus, &other, &other_node) ||
            !CPU_EQUAL(&near, &other) || !CPU_EQUAL(&allowed, &p->views[r].processors))
            continue;
        index += r < p->rank;
        count++;
    }
    CPU_AND(&near, &near, &allowed);
    if (CPU_COUNT(&near) == 0) return;
    const cpu_set_t part = tsr_assign_take_part(&near, index, count);
    (void)sched_setaffinity(0, sizeof part, &part);
    if (node < 0 || node >= (int)(8 * sizeof(unsigned long))) return;
    unsigned long nodes = 1ul << node;
    (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED_NODE, &nodes, 8 * sizeof nodes);
}

/* ---- all ---- */

static bool is_several(const tsr_model_options *options) {
    return options->transport && options->transport->rank_count > 1;
}

bool tsr_assign_shares(const tsr_model_options *options) {
    return is_several(options) && (!options->exchange || strcmp(options->exchange, "host") != 0);
}

static tsr_result use_cpu(tsr_ctx *ctx, tsr_model_options *inout_options, const char *reason) {
    if (inout_options->transport->rank == 0)
        tsr_log(ctx, TSR_LOG_NOTICE, "the ranks use the CPU: %s", reason);
    inout_options->device = "cpu";
    return TSR_SUCCESS;
}

/* Whether all ranks can have a GPU, for "auto". */
static tsr_result agree(tsr_ctx *ctx, tsr_transport *t, bool own, bool *out_all) {
    unsigned char can[TSR_TRANSPORT_RANKS_MAX];
    can[t->rank] = own;
    TRY(ctx, tsr_all_gather_each(ctx, t, can, 1));
    *out_all = memchr(can, 0, t->rank_count) == NULL;
    return TSR_SUCCESS;
}

/* For "auto", AMD's GPUs if there are no NVIDIA GPUs; the error is that of the first. */
static tsr_result list_devices(tsr_ctx *ctx, assignment *p, bool is_auto, tsr_arena *arena) {
    tsr_ctx second = tsr_ctx_fork(ctx);
    tsr_result result = tsr_device_gpu_list(ctx, p->type, NULL, arena, &p->gpus, &p->gpu_count);
    if (!result.code || !is_auto ||
        tsr_device_gpu_list(&second, &tsr_device_hip, NULL, arena, &p->gpus, &p->gpu_count).code)
        return result;
    p->type = &tsr_device_hip;
    return TSR_SUCCESS;
}

tsr_result tsr_assign_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, tsr_arena *arena,
                          tsr_model_options *inout_options) {
    const char *device = inout_options->device ? inout_options->device : "cpu";
    bool is_auto = strcmp(device, "auto") == 0, all = true;
    const tsr_device_type *type = is_auto ? &tsr_device_cuda : tsr_device_find(device);
    if (!is_several(inout_options) || !type || !type->gpu) return TSR_SUCCESS;
    assignment p = {.options = inout_options, .type = type};
    tsr_ctx trial = tsr_ctx_fork(ctx);
    tsr_result result = list_devices(&trial, &p, is_auto, arena);
    TRY(ctx, find_host(ctx, inout_options->transport, arena, &p));
    if (!result.code) result = choose_gpus(&trial, &p, bundle, arena);
    if (is_auto) TRY(ctx, agree(ctx, inout_options->transport, !result.code, &all));
    if (!all)
        return use_cpu(ctx, inout_options,
                       result.code ? trial.error.text : "another rank can have no GPU");
    if (result.code) return tsr_error_adopt(ctx, &trial);
    bind_near(&p);
    inout_options->device = tsr_arena_printf(arena, "%s:%s", p.type->name, p.own[p.rank]->uuid);
    if (!inout_options->device) FAIL(ctx, TSR_MEMORY, "no memory for the name of a GPU");
    return TSR_SUCCESS;
}
