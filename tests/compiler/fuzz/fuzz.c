/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz --seeds FOLDER... [--runs N] [--seconds T] [--seed S] [--first I] [--reach P]
 *      [--known FILE] [--found FOLDER]
 * fuzz --seeds FOLDER... --seed S --show I      prints input I
 *
 * Input I of seed S is always the same: a mutant of a module of the folders, as text, or (one in
 * eight) as bytecode with bytes changed, or (one in six) of what a later stage makes of one. A
 * child runs them one after another and says in a shared page where it is; when it dies or hangs,
 * its input is run once more by a program of its own, whose sanitizer names the functions on the
 * stack. A death is upstream's if no function of ours stands there but those that only call MLIR's
 * parser or pass manager. What is ours, or not in FILE (one innermost function of MLIR a row), ends
 * with exit code 1, and so does less than P % of the inputs reaching the last pass. Without
 * sanitizers nobody can tell: only deaths of text count.
 */
#include "tests/compiler/fuzz/mutate.h"
#include "tests/compiler/fuzz/stages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 500,
    HANG_SECONDS = 20,
    READER_HANG_SECONDS = 4, /* reading damaged bytecode: known, and often */
    DEATHS_MAX = 256,
    LINE_MAX_BYTES = 4096,
    KINDS = 3,
    LEAKED = 24,
    STACKS_MAX = 4096
};
static const char *const kind_names[KINDS] = {"text", "bytecode", "dumps of later stages"};

/* Shared with the child. */
typedef struct board {
    volatile uint64_t input; /* the one that is run */
    volatile uint64_t ticks; /* stages begun: stands still in a hang */
    volatile size_t stage;
    uint64_t runs[KINDS], passed[KINDS][STAGES_MAX + 1]; /* by how many stages were passed */
} board;

typedef struct death {
    char where[256]; /* innermost function */
    bool ours;
    uint64_t count, first;
} death;

/* Stacks seen before, by their addresses: naming the functions of one takes seconds. */
typedef struct stack {
    uint64_t key;
    size_t death;
} stack;

typedef struct fuzzer {
    seeds texts, dumps;
    uint64_t runs, first, seed, seconds, reach;
    const char *known, *found;
    const char *folders[16];
    size_t folder_count;
    board *shared;
    int log; /* memory file: stderr of the children */
    death deaths[DEATHS_MAX];
    size_t death_count;
    stack stacks[STACKS_MAX];
    size_t stack_count;
} fuzzer;

/* ---- seeds ----------------------------------------------------------------------------------- */

/* Whole programs are the ground that most mutants grow on; the others are many. */
enum { WHOLE_WEIGHT = 7, DUMP_MAX = 1 << 14 };

static void add_dumps(fuzzer *f, stages *s, const char *text, size_t size_bytes) {
    tsr_buffer dumps[STAGES_DUMPS] = {{0}};
    stages_dumps(s, text, size_bytes, dumps);
    for (size_t i = 0; i < STAGES_DUMPS; i++) {
        if (dumps[i].bytes && dumps[i].size_bytes < DUMP_MAX)
            seeds_add(&f->dumps, dumps[i].bytes, dumps[i].size_bytes);
        tsr_buffer_finish(&dumps[i]);
    }
}

static void add_part(fuzzer *f, stages *s, const char *text, size_t size_bytes) {
    tsr_buffer entries = {0};
    if (size_bytes > 1 << 14) return;
    size_t passed = stages_run(s, text, size_bytes);
    if (passed > 0) seeds_add(&f->texts, text, size_bytes);
    for (int i = 1; i < WHOLE_WEIGHT && passed > stages_last_pass(); i++)
        seeds_add(&f->texts, text, size_bytes);
    if (passed > stages_last_pass()) add_dumps(f, s, text, size_bytes);
    if (passed > 0 && stages_entries(s, text, size_bytes, &entries) && entries.bytes &&
        stages_run(s, entries.bytes, entries.size_bytes) > stages_last_pass())
        for (int i = 0; i < WHOLE_WEIGHT; i++)
            seeds_add(&f->texts, entries.bytes, entries.size_bytes);
    tsr_buffer_finish(&entries);
}

static void add_file(fuzzer *f, stages *s, const char *path) {
    char chunk[1 << 16];
    size_t got;
    tsr_buffer text = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) tsr_buffer_append(&text, chunk, got);
    fclose(file);
    for (const char *at = text.bytes; at;) {
        const char *stop = strstr(at, "// -----");
        add_part(f, s, at, stop ? (size_t)(stop - at) : strlen(at));
        at = stop ? stop + strlen("// -----") : NULL;
    }
    tsr_buffer_finish(&text);
}

static void add_folder(fuzzer *f, stages *s, const char *path) {
    struct dirent **items;
    int count = scandir(path, &items, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = items[i]->d_name, *inner = NULL;
        size_t length = strlen(name);
        if (name[0] != '.' && asprintf(&inner, "%s/%s", path, name) > 0) {
            if (items[i]->d_type == DT_DIR) add_folder(f, s, inner);
            if (length > 5 && strcmp(name + length - 5, ".mlir") == 0) add_file(f, s, inner);
        }
        free(inner);
        free(items[i]);
    }
    if (count >= 0) free(items);
}

static void read_seeds(fuzzer *f) {
    stages s = {0};
    for (size_t i = 0; i < f->folder_count; i++) add_folder(f, &s, f->folders[i]);
    stages_finish(&s);
    TSR_ASSERT(f->texts.count);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_bytecode(uint64_t *state) { return draw_below(state, 8) == 0; }

/* Input `index`; its kind. */
static int make_input(const fuzzer *f, stages *s, uint64_t index, tsr_buffer *out) {
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + index;
    bool bytecode = is_bytecode(&state);
    bool dump = !bytecode && f->dumps.count && draw_below(&state, 6) == 0;
    mutate(dump ? &f->dumps : &f->texts, &state, out);
    if (!bytecode) return dump ? 2 : 0;
    tsr_buffer code = {0};
    if (stages_bytecode(s, out->bytes, out->size_bytes, &code) && code.bytes) {
        tsr_buffer_finish(out);
        *out = code;
        if (draw_below(&state, 4)) mutate_bytes(&state, out->bytes, out->size_bytes);
    }
    return 1;
}

static void note_stage(void *user, size_t stage) {
    board *b = user;
    b->stage = stage;
    b->ticks++;
}

static void run_one(fuzzer *f, stages *s, uint64_t index) {
    tsr_buffer input = {0};
    board *b = f->shared;
    b->input = index;
    int kind = make_input(f, s, index, &input);
    size_t passed = stages_run(s, input.bytes ? input.bytes : "", input.size_bytes);
    b->runs[kind]++;
    b->passed[kind][passed]++;
    tsr_buffer_finish(&input);
}

/* ---- children -------------------------------------------------------------------------------- */

/* LLVM's headers poison memory in what is built with sanitizers and leave it so elsewhere. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allow_user_poisoning=0:detect_container_overflow=0:allocator_may_return_null=1:"
           "handle_abort=1:quarantine_size_mb=16:symbolize=0";
}

/* LeakSanitizer's, where there is one. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static _Noreturn void run_child(fuzzer *f, uint64_t first, uint64_t end) {
    stages s = {.on_stage = note_stage, .user = f->shared};
    dup2(f->log, STDERR_FILENO);
    for (uint64_t i = first; i < end; i++) run_one(f, &s, i);
    stages_finish(&s);
    f->shared->input = end;
    _exit(__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() ? LEAKED : 0);
}

/* The input that is run is bytecode, and is still being read. */
static bool reads_bytecode(const fuzzer *f) {
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + f->shared->input;
    return f->shared->stage == 0 && is_bytecode(&state);
}

/* Runs [first, end) in a child; the first input it did not reach. `end`: all were run. */
static uint64_t run_batch(fuzzer *f, uint64_t first, uint64_t end, bool *out_hang, bool *out_leak) {
    board *b = f->shared;
    b->input = first;
    int truncated = ftruncate(f->log, 0);
    TSR_ASSERT(truncated == 0 && lseek(f->log, 0, SEEK_SET) == 0);
    pid_t pid = fork();
    TSR_ASSERT(pid >= 0);
    if (pid == 0) run_child(f, first, end);
    *out_hang = false;
    uint64_t ticks = 0;
    unsigned still = 0;
    int status = 0;
    const struct timespec nap = {.tv_nsec = 20000000};
    while (waitpid(pid, &status, WNOHANG) == 0) {
        nanosleep(&nap, NULL);
        still = b->ticks == ticks ? still + 1 : 0;
        ticks = b->ticks;
        if (still < (reads_bytecode(f) ? READER_HANG_SECONDS : HANG_SECONDS) * 50) continue;
        *out_hang = true;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        break;
    }
    *out_leak = WIFEXITED(status) && WEXITSTATUS(status) == LEAKED;
    return WIFEXITED(status) && (*out_leak || WEXITSTATUS(status) == 0) ? end : b->input;
}

/* The log of a program of its own that runs input `index` alone. */
static void run_alone(const fuzzer *f, uint64_t index, tsr_buffer *out) {
    char command[8192], line[LINE_MAX_BYTES];
    int used = snprintf(command, sizeof command,
                        "ASAN_OPTIONS=symbolize=1:detect_leaks=0 "
                        "UBSAN_OPTIONS=print_stacktrace=1 timeout -s ABRT %d /proc/%ld/exe --seed "
                        "%llu --run %llu --seeds",
                        HANG_SECONDS, (long)getpid(), (unsigned long long)f->seed,
                        (unsigned long long)index);
    for (size_t i = 0; i < f->folder_count; i++)
        used += snprintf(command + used, sizeof command - (size_t)used, " '%s'", f->folders[i]);
    snprintf(command + used, sizeof command - (size_t)used, " 2>&1");
    FILE *pipe = popen(command, "r");
    if (!pipe) return;
    while (fgets(line, sizeof line, pipe)) tsr_buffer_text(out, line);
    pclose(pipe);
}

/* "    #3 0x55… in mlir::foo(…) file:line" or "… (module+0x…)" */
static bool read_frame(const char *at, char out_function[static 256], bool *out_ours) {
    static const char *const callers[] = {"tsr_mlir_parse", "tsr_shim_parse", "tsr_mlir_run_pass",
                                          "stages_"};
    static const char hidden[] = "(anonymous namespace)::";
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    const char *in = strstr(line, " in ");
    if (strncmp(line, "    #", 5) != 0 || !in) return false;
    in += strlen(" in ");
    if (strncmp(in, hidden, strlen(hidden)) == 0) in += strlen(hidden);
    snprintf(out_function, 256, "%.*s", (int)strcspn(in, "(</"), in);
    size_t length = strlen(out_function);
    while (length && strchr(" .", out_function[length - 1])) out_function[--length] = '\0';
    bool ours = strstr(in, "/compiler/") || strstr(in, "/runtime/base/");
    for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++)
        if (strncmp(out_function, callers[i], strlen(callers[i])) == 0) ours = false;
    *out_ours = ours && !strstr(in, "/tests/");
    return true;
}

static bool is_runtime(const char *function) {
    static const char *const parts[] = {"__GI_",
                                        "__pthread",
                                        "__asan",
                                        "__ubsan",
                                        "__sanitizer",
                                        "__interceptor",
                                        "raise",
                                        "abort",
                                        "__pthread_kill",
                                        "gsignal",
                                        "llvm::report_fatal_error",
                                        "report_size_overflow",
                                        "malloc",
                                        "calloc",
                                        "realloc",
                                        "operator new",
                                        "memcpy",
                                        "memmove"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strncmp(function, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

static void classify(const char *log, death *d) {
    char function[256];
    bool ours;
    snprintf(d->where, sizeof d->where, "died outside of it");
    if (strstr(log, "tsr_assert") || strstr(log, "assertion")) d->ours = true;
    bool named = false;
    for (const char *at = log; at && *at;) {
        const char *next = strchr(at, '\n');
        if (read_frame(at, function, &ours)) {
            if (!named && !is_runtime(function)) {
                snprintf(d->where, sizeof d->where, "%s", function);
                named = true;
            }
            d->ours = d->ours || ours;
        } else if (named && (at[0] == '\n' || strncmp(at, "==", 2) == 0)) {
            break; /* further stacks tell where memory came from */
        }
        at = next ? next + 1 : NULL;
    }
}

static void write_found(const fuzzer *f, uint64_t index, const char *log, size_t log_size) {
    char path[4096];
    tsr_buffer input = {0};
    stages s = {0};
    make_input(f, &s, index, &input);
    snprintf(path, sizeof path, "%s/%llu-%llu.mlir", f->found, (unsigned long long)f->seed,
             (unsigned long long)index);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(input.bytes, 1, input.size_bytes, file);
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/%llu-%llu.log", f->found, (unsigned long long)f->seed,
             (unsigned long long)index);
    if ((file = fopen(path, "wb"))) {
        fwrite(log, 1, log_size, file);
        fclose(file);
    }
    tsr_buffer_finish(&input);
    stages_finish(&s);
}

static void read_log(const fuzzer *f, tsr_buffer *out) {
    char chunk[1 << 14];
    ssize_t got;
    for (off_t at = 0; (got = pread(f->log, chunk, sizeof chunk, at)) > 0; at += got)
        tsr_buffer_append(out, chunk, (size_t)got);
}

enum { HANG_OF_READER = 1 }; /* the key of all hangs of the reader of bytecode */

/* FNV-1a of the innermost addresses of a report, "(module+0x…)"; 0 without any. */
static uint64_t stack_key(const char *log) {
    uint64_t key = 0;
    size_t frames = 0;
    for (const char *at = log; frames < 12 && (at = strstr(at, "    #")) != NULL; at++) {
        const char *end = at + strcspn(at, "\n"), *place = memchr(at, '+', (size_t)(end - at));
        if (!place) continue;
        if (!frames++) key = 0xcbf29ce484222325u;
        for (; place < end; place++) key = (key ^ (unsigned char)*place) * 0x100000001b3u;
    }
    return key;
}

static bool seen_before(fuzzer *f, uint64_t key) {
    for (size_t i = 0; i < f->stack_count; i++)
        if (key && f->stacks[i].key == key) {
            f->deaths[f->stacks[i].death].count++;
            return true;
        }
    return false;
}

static void describe_death(const fuzzer *f, uint64_t index, bool hang, const char *log, death *d) {
    char where[sizeof d->where];
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + index;
    if (__lsan_do_recoverable_leak_check) {
        classify(log, d);
    } else {
        d->ours = !is_bytecode(&state);
        snprintf(d->where, sizeof d->where, "a build without sanitizers");
    }
    if (!hang) return;
    /* Where it stands in a circle is chance. */
    if (strstr(log, "readBytecodeFile")) snprintf(d->where, sizeof d->where, "readBytecodeFile");
    memcpy(where, d->where, sizeof where);
    snprintf(d->where, sizeof d->where, "hang: %.200s", where);
}

static void note_death(fuzzer *f, uint64_t index, bool hang) {
    death d = {.count = 1, .first = index};
    tsr_buffer log = {0}, short_log = {0};
    read_log(f, &short_log);
    uint64_t key = !hang               ? stack_key(short_log.bytes ? short_log.bytes : "")
                   : reads_bytecode(f) ? HANG_OF_READER
                                       : 0;
    tsr_buffer_finish(&short_log);
    if (seen_before(f, key)) return;
    run_alone(f, index, &log);
    describe_death(f, index, hang, log.bytes ? log.bytes : "", &d);
    size_t at = 0;
    while (at < f->death_count &&
           (strcmp(f->deaths[at].where, d.where) != 0 || f->deaths[at].ours != d.ours))
        at++;
    if (at < f->death_count) {
        f->deaths[at].count++;
    } else if (at < DEATHS_MAX) {
        f->deaths[f->death_count++] = d;
        if (f->found) write_found(f, index, log.bytes ? log.bytes : "", log.size_bytes);
        fprintf(stderr, "fuzz: input %llu of seed %llu ended in %s, %s (%s)\n",
                (unsigned long long)index, (unsigned long long)f->seed,
                stages_names()[f->shared->stage], d.where, d.ours ? "OURS" : "upstream");
    }
    if (key && at < DEATHS_MAX && f->stack_count < STACKS_MAX)
        f->stacks[f->stack_count++] = (stack){key, at};
    tsr_buffer_finish(&log);
}

/* Which of a batch's inputs leaked is not known, and whose the memory is neither. */
static void note_leak(fuzzer *f, uint64_t first) {
    death d = {.count = 1, .first = first, .ours = true, .where = "leak"};
    tsr_buffer log = {0};
    read_log(f, &log);
    if (f->found) write_found(f, first, log.bytes ? log.bytes : "", log.size_bytes);
    fprintf(stderr, "fuzz: a leak among %d inputs from %llu on\n", BATCH,
            (unsigned long long)first);
    if (f->death_count < DEATHS_MAX) f->deaths[f->death_count++] = d;
    tsr_buffer_finish(&log);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool is_known(const fuzzer *f, const char *where) {
    char line[LINE_MAX_BYTES];
    bool known = false;
    FILE *file = f->known ? fopen(f->known, "r") : NULL;
    while (file && !known && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *name = strstr(line, "| `");
        size_t size = strlen(where);
        known = name && strncmp(name + 3, where, size) == 0 && name[3 + size] == '`';
    }
    if (file) fclose(file);
    return known;
}

static int report(const fuzzer *f, double seconds) {
    const board *b = f->shared;
    uint64_t all = 0, last = 0, deaths = 0;
    int code = 0;
    for (size_t stage = 0; stages_names()[stage]; stage++) {
        uint64_t reached = 0;
        for (int k = 0; k < KINDS; k++)
            for (size_t i = stage + 1; i <= STAGES_MAX; i++) reached += b->passed[k][i];
        printf("%10llu passed %s\n", (unsigned long long)reached, stages_names()[stage]);
    }
    for (size_t i = 0; i < f->death_count; i++) {
        const death *d = &f->deaths[i];
        bool known = !d->ours && (!__lsan_do_recoverable_leak_check || is_known(f, d->where));
        printf("%10llu died in %s: %s (first: %llu)\n", (unsigned long long)d->count, d->where,
               d->ours ? "OURS"
               : known ? "upstream, known"
                       : "upstream, NOT IN THE LEDGER",
               (unsigned long long)d->first);
        deaths += d->count;
        if (!known) code = 1;
    }
    for (int k = 0; k < KINDS; k++) {
        uint64_t reached = 0;
        for (size_t i = stages_last_pass(); i <= STAGES_MAX; i++) reached += b->passed[k][i];
        printf("%s: %llu inputs, %.1f %% reached the last pass\n", kind_names[k],
               (unsigned long long)b->runs[k],
               b->runs[k] ? 100.0 * (double)reached / (double)b->runs[k] : 0.0);
        all += b->runs[k];
        last += reached;
    }
    printf("fuzz: %llu inputs in %.0f s, %.1f %% reached the last pass, %llu died in MLIR\n",
           (unsigned long long)(all + deaths), seconds,
           all ? 100.0 * (double)last / (double)(all + deaths) : 0.0, (unsigned long long)deaths);
    if (last * 100 < f->reach * (all + deaths)) {
        printf("expected %llu %%\n", (unsigned long long)f->reach);
        code = 1;
    }
    return code;
}

static int fuzz(fuzzer *f) {
    struct timespec start, now;
    double seconds = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint64_t at = f->first, end = f->first + f->runs; at < end;) {
        uint64_t stop = end - at > BATCH ? at + BATCH : end;
        bool hang, leak;
        uint64_t reached = run_batch(f, at, stop, &hang, &leak);
        if (leak) note_leak(f, at);
        if (reached < stop) note_death(f, reached, hang);
        at = reached < stop ? reached + 1 : stop;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seconds = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
        if (f->seconds && seconds > (double)f->seconds) break;
    }
    return report(f, seconds);
}

static uint64_t number(const char *text) { return text ? strtoull(text, NULL, 10) : 0; }

int main(int argc, char **argv) {
    fuzzer f = {.runs = 1000, .seed = 1};
    const char *show = NULL, *run = NULL;
    f.shared =
        mmap(NULL, sizeof *f.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    f.log = memfd_create("stderr", MFD_CLOEXEC);
    TSR_ASSERT(f.shared != MAP_FAILED && f.log >= 0);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--seeds") == 0) {
            while (i + 1 < argc && argv[i + 1][0] != '-' && f.folder_count < 16)
                f.folders[f.folder_count++] = argv[++i];
            continue;
        }
        if (strcmp(argv[i], "--runs") == 0)
            f.runs = number(value);
        else if (strcmp(argv[i], "--seconds") == 0)
            f.seconds = number(value);
        else if (strcmp(argv[i], "--seed") == 0)
            f.seed = number(value);
        else if (strcmp(argv[i], "--first") == 0)
            f.first = number(value);
        else if (strcmp(argv[i], "--reach") == 0)
            f.reach = number(value);
        else if (strcmp(argv[i], "--known") == 0)
            f.known = value;
        else if (strcmp(argv[i], "--found") == 0)
            f.found = value;
        else if (strcmp(argv[i], "--show") == 0)
            show = value;
        else if (strcmp(argv[i], "--run") == 0)
            run = value;
        else
            return fprintf(stderr, "fuzz: unknown argument '%s'\n", argv[i]), 6;
        i++;
    }
    read_seeds(&f);
    int code = 0;
    if (show) {
        stages s = {0};
        tsr_buffer input = {0};
        make_input(&f, &s, number(show), &input);
        fwrite(input.bytes, 1, input.size_bytes, stdout);
        stages_finish(&s);
        tsr_buffer_finish(&input);
    } else if (run) {
        stages s = {0};
        run_one(&f, &s, number(run));
        stages_finish(&s);
    } else {
        fprintf(stderr, "fuzz: %zu texts and %zu dumps to start from\n", f.texts.count,
                f.dumps.count);
        code = fuzz(&f);
    }
    seeds_finish(&f.texts);
    seeds_finish(&f.dumps);
    return code;
}
