/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/launcher.h"

#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/base/suggest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The ports of Slurm's jobs end below the range from which Linux takes the ports of outgoing
 * connections, 32768. */
enum { KEY_BYTES_MAX = 4096, SLURM_PORT_FIRST = 20000, SLURM_PORTS = 12000 };

typedef struct launcher {
    const char *name, *rank, *rank_count, *local_rank, *local_rank_count;
} launcher;

static const launcher launchers[] = {
#define X(name, rank, rank_count, local_rank, local_rank_count)                                    \
    {name, rank, rank_count, local_rank, local_rank_count},
#include "tools/run/launchers.def"
#undef X
};

/* An empty variable is as good as none. */
static const char *get(const char *name) {
    const char *text = name ? getenv(name) : NULL;
    return text && text[0] ? text : NULL;
}

static bool parse(const char *text, uint32_t max, uint32_t *out_number) {
    char *end = NULL;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') return false;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || number > max) return false;
    *out_number = (uint32_t)number;
    return true;
}

static bool is_set(const launcher *l) { return get(l->rank) && get(l->rank_count); }

const char *tsr_launcher_get_name(void) {
    uint32_t count = 0;
    for (size_t i = 0; i < TSR_COUNT(launchers); i++)
        if (is_set(&launchers[i]) && parse(get(launchers[i].rank_count), UINT32_MAX, &count))
            return count > 1 ? launchers[i].name : NULL;
    return NULL;
}

static tsr_result choose(tsr_ctx *ctx, const char *name, const launcher **out_launcher) {
    tsr_suggestion suggestion = {.wrong = name};
    char text[TSR_SUGGESTION_TEXT_MAX], all[160] = "auto";
    bool any = strcmp(name, "auto") == 0;
    for (size_t i = 0; i < TSR_COUNT(launchers); i++) {
        const launcher *l = &launchers[i];
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, ", %s", l->name);
        tsr_suggest(&suggestion, l->name);
        if (!any && strcmp(name, l->name) != 0) continue;
        if (is_set(l)) return *out_launcher = l, TSR_SUCCESS;
        if (!any)
            FAIL(ctx, TSR_USAGE, "--launcher %s: the environment has no %s; %s sets %s and %s",
                 name, get(l->rank) ? l->rank_count : l->rank, name, l->rank, l->rank_count);
    }
    if (any)
        FAIL(ctx, TSR_USAGE,
             "--launcher auto: the environment names no launcher; one of torchrun sets RANK and "
             "WORLD_SIZE");
    FAIL(ctx, TSR_USAGE, "--launcher '%s'; expected one of %s%s", name, all,
         tsr_suggestion_text(&suggestion, text));
}

/* ---- which rank ---- */

static tsr_result read_number(tsr_ctx *ctx, const char *name, uint32_t max, uint32_t *out) {
    if (!parse(get(name), max, out))
        FAIL(ctx, TSR_USAGE, "%s is '%s'; expected a number from 0 to %" PRIu32, name, get(name),
             max);
    return TSR_SUCCESS;
}

static tsr_result read_ranks(tsr_ctx *ctx, const launcher *l, tsr_job_options *job) {
    TRY(ctx, read_number(ctx, l->rank, UINT32_MAX, &job->rank));
    TRY(ctx, read_number(ctx, l->rank_count, UINT32_MAX, &job->rank_count));
    if (job->rank >= job->rank_count)
        FAIL(ctx, TSR_USAGE, "%s is %" PRIu32 " and %s is %" PRIu32 "; ranks count from 0", l->rank,
             job->rank, l->rank_count, job->rank_count);
    if (!get(l->local_rank) || !get(l->local_rank_count)) return TSR_SUCCESS;
    TRY(ctx, read_number(ctx, l->local_rank, UINT32_MAX, &job->local_rank));
    TRY(ctx, read_number(ctx, l->local_rank_count, job->rank_count, &job->local_rank_count));
    if (job->local_rank >= job->local_rank_count)
        FAIL(ctx, TSR_USAGE, "%s is %" PRIu32 " and %s is %" PRIu32 "; ranks count from 0",
             l->local_rank, job->local_rank, l->local_rank_count, job->local_rank_count);
    return TSR_SUCCESS;
}

/* ---- where rank 0 listens ---- */

static tsr_result split(tsr_ctx *ctx, const char *text, tsr_arena *arena, tsr_job_options *job) {
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool bracketed = length > 2 && text[0] == '[' && text[length - 1] == ']';
    uint32_t port = 0;
    if (length == 0 || (text[0] == '[' && !bracketed) || !parse(colon + 1, UINT16_MAX, &port) ||
        port == 0)
        FAIL(ctx, TSR_USAGE, "--rendezvous '%s'; expected HOST:PORT, with a port from 1 to 65535",
             text);
    if (bracketed) text++, length -= 2; /* [::1]:29500 */
    char *address = tsr_arena_strdup(arena, text);
    job->port = tsr_arena_strdup(arena, colon + 1);
    if (!address || !job->port) FAIL(ctx, TSR_MEMORY, "no memory for an address");
    address[length] = 0;
    job->address = address;
    return TSR_SUCCESS;
}

static tsr_result read_port(tsr_ctx *ctx, uint32_t *out_port) {
    const char *text = get("MASTER_PORT");
    if (!parse(text, UINT16_MAX, out_port) || *out_port == 0)
        FAIL(ctx, TSR_USAGE, "MASTER_PORT is '%s'; expected a number from 1 to 65535", text);
    return TSR_SUCCESS;
}

/* The agent of torchrun listens at MASTER_PORT itself if its ranks are to use its store, so rank 0
 * of this job takes the next port. */
static tsr_result use_master(tsr_ctx *ctx, tsr_arena *arena, tsr_job_options *job) {
    const char *taken = get("TORCHELASTIC_USE_AGENT_STORE");
    char text[8];
    uint32_t port = 0;
    job->address = get("MASTER_ADDR");
    job->port = get("MASTER_PORT");
    TRY(ctx, read_port(ctx, &port));
    if (!taken || strcmp(taken, "True") != 0) return TSR_SUCCESS;
    if (port == UINT16_MAX)
        FAIL(ctx, TSR_USAGE,
             "MASTER_PORT is 65535, which torchrun uses itself, and there is no next port; give "
             "--rendezvous HOST:PORT");
    snprintf(text, sizeof text, "%" PRIu32, port + 1);
    job->port = tsr_arena_strdup(arena, text);
    if (!job->port) FAIL(ctx, TSR_MEMORY, "no memory for a port");
    return TSR_SUCCESS;
}

/* Writes the first host of a list such as "node[03-08,12],big1": "node03". */
static bool find_first_host(const char *list, char *out_host, size_t size) {
    size_t used = 0;
    for (const char *at = list; *at && *at != ','; at++) {
        if (*at != '[') {
            if (used + 1 < size) out_host[used++] = *at;
            continue;
        }
        size_t digits = strcspn(at + 1, ",-]");
        const char *end = strchr(at, ']');
        if (!end) return false;
        for (size_t i = 0; i < digits; i++)
            if (used + 1 < size) out_host[used++] = at[1 + i];
        at = end;
    }
    out_host[used] = 0;
    return used > 0 && used + 1 < size;
}

/* Rank 0 of a step of Slurm is on the first of its hosts. Two steps on one host get two ports. */
static tsr_result use_slurm(tsr_ctx *ctx, tsr_arena *arena, tsr_job_options *job) {
    const char *list = get("SLURM_STEP_NODELIST");
    char host[256], port[16];
    uint32_t id = 0, step = 0, given = 0;
    if (!list || !find_first_host(list, host, sizeof host))
        FAIL(ctx, TSR_USAGE,
             "SLURM_STEP_NODELIST is '%s', which names no host; give --rendezvous HOST:PORT",
             list ? list : "");
    if (get("SLURM_JOB_ID")) TRY(ctx, read_number(ctx, "SLURM_JOB_ID", UINT32_MAX, &id));
    if (get("SLURM_STEP_ID")) TRY(ctx, read_number(ctx, "SLURM_STEP_ID", UINT32_MAX, &step));
    if (get("MASTER_PORT")) TRY(ctx, read_port(ctx, &given));
    snprintf(port, sizeof port, "%u",
             given ? given : SLURM_PORT_FIRST + (id * 16u + step) % SLURM_PORTS);
    job->address = tsr_arena_strdup(arena, host);
    job->port = tsr_arena_strdup(arena, port);
    if (!job->address || !job->port) FAIL(ctx, TSR_MEMORY, "no memory for an address");
    return TSR_SUCCESS;
}

static tsr_result find_first(tsr_ctx *ctx, const tsr_launcher_flags *flags, const launcher *l,
                             tsr_arena *arena, tsr_job_options *job) {
    if (flags->rendezvous) return split(ctx, flags->rendezvous, arena, job);
    if (get("MASTER_ADDR") && get("MASTER_PORT")) return use_master(ctx, arena, job);
    if (strcmp(l->name, "slurm") == 0) return use_slurm(ctx, arena, job);
    FAIL(ctx, TSR_USAGE,
         "the ranks of %s do not know where rank 0 listens: the environment has no %s; set it, or "
         "give --rendezvous HOST:PORT",
         l->name, get("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR");
}

/* ---- the key ---- */

static tsr_result read_key(tsr_ctx *ctx, const tsr_launcher_flags *flags, tsr_arena *arena,
                           tsr_job_options *job) {
    const char *path = flags->job_key;
    struct stat info;
    void *key = NULL;
    job->insecure = flags->no_job_key;
    if (flags->job_key && flags->no_job_key)
        FAIL(ctx, TSR_USAGE, "--job-key and --no-job-key exclude each other");
    if (!path && !flags->no_job_key) path = get("TESSERA_RUN_SECRET_FILE");
    if (!path) return TSR_SUCCESS;
    TRY(ctx, tsr_io_read_file(ctx, path, KEY_BYTES_MAX, arena, &key, &job->key_bytes));
    if (stat(path, &info) == 0 && info.st_mode & (S_IRWXG | S_IRWXO))
        FAIL(ctx, TSR_USAGE,
             "the job key '%s' has mode %04o: other users have access to it; chmod 600 '%s'", path,
             (unsigned)info.st_mode & 07777u, path);
    job->key = key;
    return TSR_SUCCESS;
}

tsr_result tsr_launcher_find(tsr_ctx *ctx, const tsr_launcher_flags *flags, tsr_arena *arena,
                             tsr_job_options *out_job) {
    tsr_job_options job = {.size_bytes = sizeof job, .transport = TSR_JOB_TCP};
    const launcher *l = NULL;
    TRY(ctx, choose(ctx, flags->launcher, &l));
    TRY(ctx, read_ranks(ctx, l, &job));
    TRY(ctx, find_first(ctx, flags, l, arena, &job));
    TRY(ctx, read_key(ctx, flags, arena, &job));
    *out_job = job;
    return TSR_SUCCESS;
}
