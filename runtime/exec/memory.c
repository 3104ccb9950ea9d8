/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/memory.h"

#include "manifests/program.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void lower(uint64_t *least, uint64_t value) {
    if (value < *least) *least = value;
}

static void read_meminfo(uint64_t *least) {
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            lower(least, (uint64_t)kib * 1024);
    fclose(file);
}

static bool read_number(const char *path, uint64_t *out_value) {
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool found =
        fscanf(file, "%" SCNu64, &value) == 1; /* "max" is not a number and means no limit */
    fclose(file);
    *out_value = value;
    return found;
}

/* Memory of the page cache is released under pressure. */
static uint64_t read_cache(const char *group) {
    char path[1200], line[128];
    uint64_t value = 0, total = 0;
    snprintf(path, sizeof path, "%s/memory.stat", group);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "inactive_file %" SCNu64, &value) == 1 ||
            sscanf(line, "active_file %" SCNu64, &value) == 1)
            total += value;
    fclose(file);
    return total;
}

static void read_group(const char *group, uint64_t *least) {
    char path[1200];
    uint64_t limit = 0, used = 0;
    snprintf(path, sizeof path, "%s/memory.max", group);
    if (!read_number(path, &limit)) return;
    snprintf(path, sizeof path, "%s/memory.current", group);
    if (!read_number(path, &used)) return;
    uint64_t cache = read_cache(group);
    used = used > cache ? used - cache : 0;
    lower(least, limit > used ? limit - used : 0);
}

/* cgroup v2: this process's group in /proc/self/cgroup and its ancestors, under the usual mount
 * point. */
static void read_cgroup(uint64_t *least) {
    static const char mount[] = "/sys/fs/cgroup";
    char line[1024], group[1100];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) found = strncmp(line, "0::/", 4) == 0;
    fclose(file);
    if (!found) return;
    line[strcspn(line, "\n")] = 0;
    snprintf(group, sizeof group, "%s%s", mount, line + 3);
    read_group(group, least);
    for (char *slash; (slash = strrchr(group + sizeof mount - 1, '/')) != NULL;) {
        *slash = 0;
        read_group(group, least);
    }
}

static void read_rlimit(uint64_t *least) {
    struct rlimit limit;
    uint64_t pages = 0;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return;
    if (fscanf(file, "%" SCNu64, &pages) == 1) {
        uint64_t used = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
        lower(least, limit.rlim_cur > used ? limit.rlim_cur - used : 0);
    }
    fclose(file);
}

enum { MARK = 0xA5 };

void tsr_memory_mark(void *workspace, uint64_t size_bytes) {
    if (size_bytes) memset(workspace, MARK, (size_t)size_bytes);
}

static bool is_marked(const uint8_t *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != MARK) return false;
    return true;
}

tsr_workspace_use tsr_memory_measure(const void *workspace, uint64_t size_bytes) {
    tsr_workspace_use use = {.planned_bytes = size_bytes};
    for (uint64_t at = 0; at < size_bytes; at += TSR_PROGRAM_ALIGN_BYTES) {
        uint64_t left = size_bytes - at;
        uint64_t count = left < TSR_PROGRAM_ALIGN_BYTES ? left : TSR_PROGRAM_ALIGN_BYTES;
        if (is_marked((const uint8_t *)workspace + at, count)) continue;
        use.written_bytes += count;
        use.reached_bytes = at + count;
    }
    return use;
}

uint64_t tsr_memory_plan_host(const tsr_memory_plan *plan, bool device_shares) {
    return plan->offloaded_bytes +
           (device_shares ? plan->total_bytes : plan->tensor_bytes + plan->port_bytes);
}

uint64_t tsr_memory_get_available(void) {
    uint64_t least = UINT64_MAX;
    read_meminfo(&least);
    read_cgroup(&least);
    read_rlimit(&least);
    return least;
}

uint64_t tsr_memory_get_resident(void) {
    uint64_t resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    bool found =
        fscanf(file, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) == 2 && resident >= shared;
    fclose(file);
    return found ? (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

tsr_result tsr_memory_check(tsr_ctx *ctx, const char *what, uint64_t planned_bytes) {
    uint64_t available = tsr_memory_get_available();
    if (planned_bytes > available)
        FAIL(ctx, TSR_MEMORY, "%s plans %" PRIu64 " byte%s of memory; %" PRIu64 " are available",
             what, planned_bytes, TSR_PLURAL(planned_bytes), available);
    return TSR_SUCCESS;
}
