/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz --seeds FOLDER... [--runs N] [--seconds T] [--seed S] [--first I] [--reach P]
 *      [--known FILE] [--found FOLDER] [--plant leak|overflow] [--together yes]
 * fuzz --seeds FOLDER... --seed S --show I              prints input I
 * fuzz --seeds FOLDER... --seed S --run I [--runs N]    runs N inputs from I on, in this process
 * fuzz --file FILE                                      runs the contents of a file
 *
 * Input I of seed S is always the same: a mutant of a module of the folders, as text, or (one in
 * eight) as bytecode with bytes changed, or (one in six) a mutant of the output of a later stage. A
 * child runs the inputs one after another and publishes its position in a shared page. Bytecode is
 * first read by a separate process, as in the compiler: its reader damages memory in ways that
 * become visible much later (with --together). If a child dies or hangs, its input is run again by
 * a separate program, whose sanitizer names the functions on the stack; if the input succeeds
 * there, the whole batch up to it is run again.
 *
 * A death is upstream's if the stack contains no function of ours, apart from those that only call
 * MLIR's parser or pass manager. The exit code is 1 after a death that is ours or not in FILE (one
 * innermost function of MLIR per row), if less than P % of the inputs reach the last pass, and if
 * no input passes one of our passes. A leak of a batch is bisected to one input; whoever allocated
 * the memory, it must be in FILE: "leak: " and the innermost function. Without sanitizers the cause
 * of a death is unknown: only deaths of text count. --plant plants a defect in the first input,
 * which must be found.
 */
#include "compiler/ir/text/bytecode.h"
#include "runtime/base/array.h"
#include "tests/compiler/corpus.h"
#include "tests/compiler/fuzz/death.h"
#include "tests/compiler/fuzz/mutate.h"
#include "tests/compiler/fuzz/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 500,
    HANG_SECONDS = 20,
    ALONE_SECONDS = 30,
    AGAIN_SECONDS = 150,
    READER_HANG_SECONDS = 4, /* reading damaged bytecode: known, and often */
    DEATHS_MAX = 256,
    LINE_MAX_BYTES = 4096,
    KINDS = 3,
    LEAKED = 24,
    DIED_APART = 25,
    STACKS_MAX = 4096
};
enum { TEXT, BYTECODE, DUMP };
static const char *const kind_names[KINDS] = {"text", "bytecode", "dumps of later stages"};

/* Shared with the child. */
typedef struct board {
    volatile uint64_t input; /* the current input */
    volatile uint64_t ticks; /* stages begun: does not change in a hang */
    volatile pid_t worker;   /* the process that runs it */
    volatile size_t stage;
    uint64_t runs[KINDS], passed[KINDS][STAGES_MAX + 1]; /* index: passed stages */
} board;

/* Stacks seen before, identified by their addresses: symbolizing a stack takes seconds. */
typedef struct stack {
    uint64_t key;
    size_t death;
} stack;

typedef struct fuzzer {
    seeds texts, dumps;
    uint64_t runs, first, seed, seconds, reach;
    const char *known, *found, *plant;
    const char *folders[16];
    size_t folder_count;
    board *shared;
    int log, input; /* memory files: stderr of the children; their input */
    death deaths[DEATHS_MAX];
    size_t death_count;
    stack stacks[STACKS_MAX];
    size_t stack_count;
    uint64_t slow;        /* inputs that looked like hangs but ended when run alone */
    const char *together; /* bytecode is read in the same process */
} fuzzer;

/* ---- seeds ----------------------------------------------------------------------------------- */

/* Most mutants should be based on whole programs, but other seeds are more numerous: weights. */
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

typedef struct seeder {
    fuzzer *f;
    stages s;
} seeder;

static void add_part(const char *path, const char *text, size_t size_bytes, void *user) {
    fuzzer *f = ((seeder *)user)->f;
    stages *s = &((seeder *)user)->s;
    tsr_buffer entries = {0};
    (void)path;
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

static void read_seeds(fuzzer *f) {
    seeder to = {.f = f, .s = {.plain = true}};
    for (size_t i = 0; i < f->folder_count; i++) {
        bool done = corpus_each(f->folders[i], add_part, &to);
        TSR_ASSERT(done);
    }
    stages_finish(&to.s);
    TSR_ASSERT(f->texts.count);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool is_bytecode(uint64_t *state) { return draw_below(state, 8) == 0; }

/* Stores the input so that it is available after a death. */
static void copy_input(const fuzzer *f, const tsr_buffer *input) {
    int truncated = ftruncate(f->input, 0);
    TSR_ASSERT(truncated == 0);
    for (size_t done = 0; done < input->size_bytes;) {
        ssize_t wrote =
            pwrite(f->input, input->bytes + done, input->size_bytes - done, (off_t)done);
        TSR_ASSERT(wrote > 0);
        done += (size_t)wrote;
    }
}

/* Makes input `index`; returns its kind. */
static int make_input(const fuzzer *f, stages *s, uint64_t index, tsr_buffer *out) {
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + index;
    bool bytecode = is_bytecode(&state);
    bool dump = !bytecode && f->dumps.count && draw_below(&state, 6) == 0;
    mutate(dump ? &f->dumps : &f->texts, &state, out);
    copy_input(f, out);
    if (!bytecode) return dump ? DUMP : TEXT;
    tsr_buffer code = {0};
    if (stages_bytecode(s, out->bytes, out->size_bytes, &code) && code.bytes) {
        tsr_buffer_finish(out);
        *out = code;
        if (draw_below(&state, 4)) mutate_bytes(&state, out->bytes, out->size_bytes);
        copy_input(f, out);
    }
    return BYTECODE;
}

static void note_stage(void *user, size_t stage) {
    board *b = user;
    b->stage = stage;
    b->ticks++;
}

/* Reads bytecode in a separate process; if it dies, this process dies too. */
static void read_apart(fuzzer *f, stages *s, const tsr_buffer *input) {
    int status = 0;
    pid_t pid = fork();
    TSR_ASSERT(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        f->shared->worker = getpid();
        stages_read(s, input->bytes, input->size_bytes);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0) TSR_ASSERT(errno == EINTR);
    f->shared->worker = getpid();
    if (!WIFEXITED(status) || WEXITSTATUS(status)) _exit(DIED_APART);
}

/* Plants a defect that a sanitizer must find. */
static void do_damage(const char *plant) {
    static char *volatile memory;
    memory = malloc(8);
    if (memory && strcmp(plant, "overflow") == 0) memory[8] = 1;
    memory = NULL;
}

static void run_one(fuzzer *f, stages *s, uint64_t index) {
    tsr_buffer input = {0};
    f->shared->input = index;
    int kind = make_input(f, s, index, &input);
    if (f->plant && index == f->first) do_damage(f->plant);
    if (kind == BYTECODE && input.bytes && tsr_is_bytecode(input.bytes, input.size_bytes)) {
        if (f->together)
            stages_read(s, input.bytes, input.size_bytes);
        else
            read_apart(f, s, &input);
    }
    size_t passed = stages_run(s, input.bytes ? input.bytes : "", input.size_bytes);
    f->shared->runs[kind]++;
    f->shared->passed[kind][passed]++;
    tsr_buffer_finish(&input);
}

/* ---- children -------------------------------------------------------------------------------- */

/* LLVM's headers poison memory in code built with sanitizers; code built without them does not
 * unpoison it. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allow_user_poisoning=0:detect_container_overflow=0:allocator_may_return_null=1:"
           "handle_abort=1:quarantine_size_mb=16:symbolize=0";
}

/* LeakSanitizer's function, if it is linked. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static bool leaks(void) {
    return __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
}

static _Noreturn void run_child(fuzzer *f, uint64_t first, uint64_t end) {
    stages s = {.on_stage = note_stage, .user = f->shared};
    dup2(f->log, STDERR_FILENO);
    f->shared->worker = getpid();
    for (uint64_t i = first; i < end; i++) run_one(f, &s, i);
    stages_finish(&s);
    f->shared->input = end;
    _exit(leaks() ? LEAKED : 0);
}

/* True if the current input is bytecode and is still being read. */
static bool reads_bytecode(const fuzzer *f) {
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + f->shared->input;
    return f->shared->stage == 0 && is_bytecode(&state);
}

/* The CPU seconds that a process has used (load from other processes must not look like a hang); 0
 * if the process has ended. */
static double used_seconds(pid_t pid) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Waits for the child; true if it had to be stopped. */
static bool wait_for(const fuzzer *f, pid_t pid, int *out_status) {
    const struct timespec nap = {.tv_nsec = 20000000};
    const board *b = f->shared;
    uint64_t ticks = b->ticks;
    pid_t worker = b->worker;
    double start = used_seconds(worker);
    while (waitpid(pid, out_status, WNOHANG) == 0) {
        nanosleep(&nap, NULL);
        if (b->ticks != ticks || b->worker != worker) {
            ticks = b->ticks;
            worker = b->worker;
            start = used_seconds(worker);
        }
        int limit = reads_bytecode(f) ? READER_HANG_SECONDS : HANG_SECONDS;
        if (used_seconds(worker) - start < limit) continue;
        kill(pid, SIGKILL);
        waitpid(pid, out_status, 0);
        return true;
    }
    return false;
}

/* Runs [first, end) in a child; returns the first input that was not completed. `end`: all were
 * run. */
static uint64_t run_batch(fuzzer *f, uint64_t first, uint64_t end, bool *out_hang, bool *out_leak) {
    int status = 0, truncated = ftruncate(f->log, 0);
    TSR_ASSERT(truncated == 0 && lseek(f->log, 0, SEEK_SET) == 0);
    f->shared->input = first;
    pid_t pid = fork();
    TSR_ASSERT(pid >= 0);
    if (pid == 0) run_child(f, first, end);
    *out_hang = wait_for(f, pid, &status);
    *out_leak = WIFEXITED(status) && WEXITSTATUS(status) == LEAKED;
    return WIFEXITED(status) && (*out_leak || WEXITSTATUS(status) == 0) ? end : f->shared->input;
}

/* Appends the log of a command; false if the command failed. */
static bool run_command(const char *command, tsr_buffer *out_log) {
    char line[LINE_MAX_BYTES];
    FILE *pipe = popen(command, "r");
    if (!pipe) return false;
    while (fgets(line, sizeof line, pipe)) tsr_buffer_text(out_log, line);
    return pclose(pipe) == 0;
}

#define WITH_NAMES                                                                                 \
    "ASAN_OPTIONS=symbolize=1:leak_check_at_exit=0 UBSAN_OPTIONS=print_stacktrace=1 "              \
    "timeout -s ABRT %d /proc/%ld/exe "

/* Runs the last input in a separate program. */
static bool run_alone(const fuzzer *f, tsr_buffer *out_log) {
    char command[256];
    snprintf(command, sizeof command, WITH_NAMES "--file /proc/%ld/fd/%d 2>&1", ALONE_SECONDS,
             (long)getpid(), (long)getpid(), f->input);
    return run_command(command, out_log);
}

/* The same for inputs [first, end), one after another. */
static bool run_again(const fuzzer *f, uint64_t first, uint64_t end, tsr_buffer *out_log) {
    char command[8192];
    int used =
        snprintf(command, sizeof command,
                 WITH_NAMES "--seed %" PRIu64 " --run %" PRIu64 " --runs %" PRIu64 " --seeds",
                 AGAIN_SECONDS, (long)getpid(), f->seed, first, end - first);
    for (size_t i = 0; i < f->folder_count; i++)
        used += snprintf(command + used, sizeof command - (size_t)used, " '%s'", f->folders[i]);
    snprintf(command + used, sizeof command - (size_t)used, " 2>&1");
    return run_command(command, out_log);
}

/* `kind` is the extension of the file. */
static void write_file(const fuzzer *f, uint64_t index, const char *kind, const char *bytes,
                       size_t size_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%" PRIu64 "-%" PRIu64 ".%s", f->found, f->seed, index, kind);
    FILE *file = fopen(path, "wb");
    if (!file) return;
    if (size_bytes) fwrite(bytes, 1, size_bytes, file);
    fclose(file);
}

static void read_memory(int file, tsr_buffer *out) {
    char chunk[1 << 14];
    ssize_t got;
    for (off_t at = 0; (got = pread(file, chunk, sizeof chunk, at)) > 0; at += got)
        tsr_buffer_append(out, chunk, (size_t)got);
}

static void write_found(const fuzzer *f, uint64_t index, const tsr_buffer *log) {
    tsr_buffer input = {0};
    read_memory(f->input, &input);
    write_file(f, index, "mlir", input.bytes, input.size_bytes);
    write_file(f, index, "log", log->bytes, log->size_bytes);
    tsr_buffer_finish(&input);
}

enum { HANG_OF_READER = 1 }; /* the key of all hangs of the bytecode reader */

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
        death_classify(log, d);
    } else {
        d->ours = !is_bytecode(&state);
        snprintf(d->where, sizeof d->where, "a build without sanitizers");
    }
    if (!hang) return;
    /* The position within an endless loop is random. */
    if (strstr(log, "readBytecodeFile")) snprintf(d->where, sizeof d->where, "readBytecodeFile");
    memcpy(where, d->where, sizeof where);
    snprintf(d->where, sizeof d->where, "hang: %.200s", where);
}

/* Counts a death; returns its index in the list, or DEATHS_MAX. */
static size_t add_death(fuzzer *f, const death *d, const tsr_buffer *log) {
    size_t at = 0;
    while (at < f->death_count &&
           (strcmp(f->deaths[at].where, d->where) != 0 || f->deaths[at].ours != d->ours))
        at++;
    if (at < f->death_count) {
        f->deaths[at].count++;
    } else if (at < DEATHS_MAX) {
        f->deaths[f->death_count++] = *d;
        if (f->found) write_found(f, d->first, log);
        fprintf(stderr, "fuzz: input %" PRIu64 " of seed %" PRIu64 " ended in %s, %s (%s)\n",
                d->first, f->seed, stages_names()[f->shared->stage], d->where,
                d->ours ? "OURS" : "upstream");
    }
    return at;
}

/* Notes a death that does not occur when the input is run alone; `first`: the beginning of its
 * batch. For bytecode this is expected: a separate process reads it, and the reader uses arbitrary
 * memory contents as pointers. */
static void note_unsteady(fuzzer *f, uint64_t first, death *d, tsr_buffer *log) {
    char where[sizeof d->where];
    tsr_buffer batch_log = {0};
    bool steady = false;
    if (run_again(f, first, d->first + 1, &batch_log)) {
        snprintf(d->where, sizeof d->where, "died once, not again");
        tsr_buffer_printf(log, "in a batch from %" PRIu64 " on\n", first);
    } else {
        describe_death(f, d->first, false, batch_log.bytes ? batch_log.bytes : "", d);
        tsr_buffer_append(log, batch_log.bytes, batch_log.size_bytes);
        steady = reads_bytecode(f) && !d->ours;
        memcpy(where, d->where, sizeof where);
        if (!steady) snprintf(d->where, sizeof d->where, "after others: %.200s", where);
    }
    if (!steady) d->ours = true; /* until someone finds the cause */
    add_death(f, d, log);
    tsr_buffer_finish(&batch_log);
}

static void note_death(fuzzer *f, uint64_t first, uint64_t index, bool hang) {
    death d = {.count = 1, .first = index};
    tsr_buffer log = {0}, short_log = {0};
    read_memory(f->log, &short_log);
    uint64_t key = !hang               ? death_key(short_log.bytes ? short_log.bytes : "")
                   : reads_bytecode(f) ? HANG_OF_READER
                                       : 0;
    if (!seen_before(f, key)) {
        bool well = run_alone(f, &log);
        if (well && hang) {
            f->slow++;
        } else if (well) {
            tsr_buffer_append(&log, short_log.bytes, short_log.size_bytes);
            note_unsteady(f, first, &d, &log);
        } else {
            describe_death(f, index, hang, log.bytes ? log.bytes : "", &d);
            size_t at = add_death(f, &d, &log);
            if (key && at < DEATHS_MAX && f->stack_count < STACKS_MAX)
                f->stacks[f->stack_count++] = (stack){key, at};
        }
    }
    tsr_buffer_finish(&short_log);
    tsr_buffer_finish(&log);
}

/* Bisects a batch to a single input that leaks. */
static void note_leak(fuzzer *f, uint64_t first, uint64_t end) {
    death d = {.count = 1, .first = first};
    char where[sizeof d.where];
    tsr_buffer log = {0};
    bool hang, leak;
    while (end - first > 1) {
        uint64_t middle = first + (end - first) / 2;
        run_batch(f, first, middle, &hang, &leak);
        if (leak)
            end = middle;
        else
            first = middle;
    }
    d.first = first;
    run_batch(f, first, end, &hang, &leak);
    run_alone(f, &log);
    death_classify(log.bytes ? log.bytes : "", &d);
    d.ours = false; /* the ledger decides */
    memcpy(where, d.where, sizeof where);
    snprintf(d.where, sizeof d.where, "leak: %.200s", where);
    add_death(f, &d, &log);
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
        printf("%10" PRIu64 " passed %s\n", reached, stages_names()[stage]);
    }
    for (size_t i = 0; i < f->death_count; i++) {
        const death *d = &f->deaths[i];
        bool known = !d->ours && (!__lsan_do_recoverable_leak_check || is_known(f, d->where));
        printf("%10" PRIu64 " died in %s: %s (first: %" PRIu64 ")\n", d->count, d->where,
               d->ours ? "OURS"
               : known ? "upstream, known"
                       : "upstream, NOT IN THE LEDGER",
               d->first);
        deaths += d->count;
        if (!known) code = 1;
    }
    for (int k = 0; k < KINDS; k++) {
        uint64_t reached = 0;
        for (size_t i = stages_last_pass(); i <= STAGES_MAX; i++) reached += b->passed[k][i];
        printf("%s: %" PRIu64 " inputs, %.1f %% reached the last pass\n", kind_names[k], b->runs[k],
               b->runs[k] ? 100.0 * (double)reached / (double)b->runs[k] : 0.0);
        all += b->runs[k];
        last += reached;
    }
    printf("fuzz: %" PRIu64 " inputs in %.0f s, %.1f %% reached the last pass, %" PRIu64
           " died in MLIR\n",
           all + deaths + f->slow, seconds,
           all ? 100.0 * (double)last / (double)(all + deaths) : 0.0, deaths);
    if (f->slow)
        printf("%" PRIu64 " were slow: taken for hangs, and ended when run alone\n", f->slow);
    if (last * 100 < f->reach * (all + deaths)) {
        printf("expected %" PRIu64 " %%\n", f->reach);
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
        if (leak) note_leak(f, at, stop);
        if (reached < stop) note_death(f, at, reached, hang);
        at = reached < stop ? reached + 1 : stop;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seconds = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
        if (f->seconds && seconds > (double)f->seconds) break;
    }
    return report(f, seconds);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int show_input(fuzzer *f, uint64_t index) {
    stages s = {0};
    tsr_buffer input = {0};
    make_input(f, &s, index, &input);
    fwrite(input.bytes, 1, input.size_bytes, stdout);
    stages_finish(&s);
    tsr_buffer_finish(&input);
    return 0;
}

static int run_here(fuzzer *f, uint64_t first) {
    stages s = {0};
    for (uint64_t i = first; i < first + f->runs; i++) run_one(f, &s, i);
    stages_finish(&s);
    return leaks() ? LEAKED : 0;
}

static void end_reading(int number) {
    (void)number;
    abort(); /* the stack is that of the reader */
}

/* The bytecode reader may take half of the time; the other half suffices for the child, which reads
 * it again and has its own limit. */
static int run_file(const char *path) {
    stages s = {0};
    tsr_buffer text = {0};
    if (!corpus_read_file(path, &text)) return fprintf(stderr, "fuzz: cannot read '%s'\n", path), 4;
    signal(SIGALRM, end_reading);
    if (text.bytes && tsr_is_bytecode(text.bytes, text.size_bytes)) {
        alarm(ALONE_SECONDS / 2);
        stages_read(&s, text.bytes, text.size_bytes);
        alarm(0);
    }
    size_t passed = stages_run(&s, text.bytes ? text.bytes : "", text.size_bytes);
    printf("passed %zu stages, up to %s\n", passed, passed ? stages_names()[passed - 1] : "none");
    stages_finish(&s);
    tsr_buffer_finish(&text);
    return leaks() ? LEAKED : 0;
}

typedef struct arguments {
    const char *show, *run, *file, *runs, *seconds, *seed, *first, *reach;
} arguments;

static bool read_arguments(fuzzer *f, int argc, char **argv, arguments *out) {
    const struct {
        const char *name, **value;
    } options[] = {
        {"--show", &out->show},       {"--run", &out->run},   {"--file", &out->file},
        {"--runs", &out->runs},       {"--seed", &out->seed}, {"--first", &out->first},
        {"--seconds", &out->seconds}, {"--known", &f->known}, {"--found", &f->found},
        {"--reach", &out->reach},     {"--plant", &f->plant}, {"--together", &f->together},
    };
    enum { COUNT = TSR_COUNT(options) };
    for (int i = 1; i < argc; i++) {
        size_t at = 0;
        if (strcmp(argv[i], "--seeds") == 0) {
            while (i + 1 < argc && argv[i + 1][0] != '-' && f->folder_count < 16)
                f->folders[f->folder_count++] = argv[++i];
            continue;
        }
        while (at < COUNT && strcmp(argv[i], options[at].name) != 0) at++;
        if (at == COUNT || i + 1 == argc)
            return fprintf(stderr, "fuzz: unknown argument '%s'\n", argv[i]), false;
        *options[at].value = argv[++i];
    }
    return true;
}

static uint64_t number(const char *text, uint64_t otherwise) {
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    fuzzer f = {0};
    arguments given = {0};
    int code = 0;
    if (!read_arguments(&f, argc, argv, &given)) return 6;
    if (given.file) return run_file(given.file);
    f.runs = number(given.runs, given.run ? 1 : 1000);
    f.seed = number(given.seed, 1);
    f.first = number(given.first, 0);
    f.seconds = number(given.seconds, 0);
    f.reach = number(given.reach, 0);
    f.shared =
        mmap(NULL, sizeof *f.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    f.log = memfd_create("stderr", MFD_CLOEXEC);
    f.input = memfd_create("input", MFD_CLOEXEC);
    TSR_ASSERT(f.shared != MAP_FAILED && f.log >= 0 && f.input >= 0);
    if (stages_missing_pass())
        return fprintf(stderr, "fuzz: inputs do not go through pass '%s'\n", stages_missing_pass()),
               1;
    read_seeds(&f);
    if (given.show) {
        code = show_input(&f, number(given.show, 0));
    } else if (given.run) {
        code = run_here(&f, number(given.run, 0));
    } else {
        fprintf(stderr, "fuzz: %zu texts and %zu dumps to start from\n", f.texts.count,
                f.dumps.count);
        code = fuzz(&f);
    }
    seeds_finish(&f.texts);
    seeds_finish(&f.dumps);
    return code;
}
