/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/target/ptxas.h"

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "manifests/fatbin.h"
#include "runtime/base/buffer.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOG_BYTES_MAX = 64 << 20,
    PROGRAM_BYTES_MAX = 512 << 20,
    CUBIN_BYTES_MAX = 1 << 30,
    CHILD_FD = 3, /* first of the child's files after the standard ones */
};

static const char entry_mark[] = "Compiling entry function '";

/* ---- running --------------------------------------------------------------------------------- */

static tsr_result read_all(tsr_ctx *ctx, int fd, size_t size_max, tsr_arena *arena,
                           char **out_bytes, size_t *out_size_bytes) {
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || (size_t)size > size_max)
        FAIL(ctx, TSR_IO, "ptxas wrote %" PRId64 " bytes; at most %zu are read", size, size_max);
    char *bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 16);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for %" PRId64 " bytes of ptxas", size);
    for (size_t done = 0; done < (size_t)size;) {
        ssize_t part = pread(fd, bytes + done, (size_t)size - done, (off_t)done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot read the output of ptxas");
        done += (size_t)part;
    }
    bytes[size] = 0;
    *out_bytes = bytes;
    *out_size_bytes = (size_t)size;
    return TSR_SUCCESS;
}

static tsr_result write_all(tsr_ctx *ctx, int fd, const char *bytes, size_t size_bytes) {
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = write(fd, bytes + done, size_bytes - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot hand PTX to ptxas");
        done += (size_t)part;
    }
    return TSR_SUCCESS;
}

/* The child's output is `log`; its descriptors from CHILD_FD on are `files`. *out_status: its exit
 * status. TSR_MACHINE if a signal ended it. */
static tsr_result run_program(tsr_ctx *ctx, const char *const *args, int log, const int *files,
                              size_t file_count, int *out_status) {
    static char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    for (size_t i = 0; i < file_count; i++)
        posix_spawn_file_actions_adddup2(&actions, files[i], CHILD_FD + (int)i);
    int error = posix_spawn(&pid, args[0], &actions, NULL, (char *const *)args, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (error) FAIL_ERRNO(ctx, TSR_USAGE, error, "cannot run '%s'", args[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot wait for '%s'", args[0]);
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        FAIL(ctx, TSR_MACHINE, "'%s' was ended by signal %d (%s)", args[0], WTERMSIG(status),
             name ? name : "?");
    }
    *out_status = WEXITSTATUS(status);
    return TSR_SUCCESS;
}

/* Returns a descriptor above the child's descriptors, so that no descriptor is overwritten before
 * it is copied. */
static int open_memory(const char *name) {
    int low = memfd_create(name, MFD_CLOEXEC);
    if (low < 0) return -1;
    int high = fcntl(low, F_DUPFD_CLOEXEC, 16);
    close(low);
    return high;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* "… release 13.0, V13.0.88" */
static tsr_result read_version(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                               const char **out_version) {
    const char *args[] = {path, "--version", NULL};
    char *text = NULL;
    size_t size = 0;
    int status = 0, log = open_memory("log");
    if (log < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "no memory file for ptxas");
    tsr_result result = run_program(ctx, args, log, NULL, 0, &status);
    if (!result.code) result = read_all(ctx, log, LOG_BYTES_MAX, arena, &text, &size);
    close(log);
    TRY(ctx, result);
    char *version = strstr(text, ", V");
    if (status || !version) FAIL(ctx, TSR_USAGE, "'%s' does not print a version of ptxas", path);
    version += 3;
    version[strspn(version, "0123456789.")] = 0;
    *out_version = version;
    return TSR_SUCCESS;
}

static tsr_result describe(tsr_ctx *ctx, const char *path, tsr_arena *arena, tsr_ptxas *out_ptxas) {
    char hex[TSR_DIGEST_HEX + 1];
    const char *version = NULL;
    void *bytes = NULL;
    size_t size = 0;
    tsr_arena file = {0};
    TRY(ctx, read_version(ctx, path, arena, &version));
    tsr_result result = tsr_io_read_file(ctx, path, PROGRAM_BYTES_MAX, &file, &bytes, &size);
    if (!result.code) {
        tsr_digest digest = tsr_hash(bytes, size);
        tsr_digest_format(&digest, hex);
    }
    tsr_arena_finish(&file);
    TRY(ctx, result);
    *out_ptxas = (tsr_ptxas){tsr_arena_strdup(arena, path),
                             tsr_arena_printf(arena, "%s sha256:%s", version, hex)};
    if (!out_ptxas->path || !out_ptxas->description) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    return TSR_SUCCESS;
}

/* A folder can also have that name. */
static bool is_program(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

/* *out_path is NULL if none of the folders has it. */
static tsr_result search(tsr_ctx *ctx, const char *folders, tsr_arena *arena,
                         const char **out_path) {
    *out_path = NULL;
    for (const char *at = folders; at && *at;) {
        size_t length = strcspn(at, ":");
        const char *path = tsr_arena_printf(arena, "%.*s/ptxas", (int)length, at);
        if (!path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
        if (length && is_program(path)) {
            *out_path = path;
            return TSR_SUCCESS;
        }
        at += length + (at[length] == ':');
    }
    return TSR_SUCCESS;
}

tsr_result tsr_ptxas_find(tsr_ctx *ctx, const char *given, const char *search_path,
                          const char *toolkit_path, tsr_arena *arena, tsr_ptxas *out_ptxas) {
    const char *path = given;
    *out_ptxas = (tsr_ptxas){0};
    if (!path) TRY(ctx, search(ctx, search_path, arena, &path));
    if (!path) TRY(ctx, search(ctx, toolkit_path, arena, &path));
    return path ? describe(ctx, path, arena, out_ptxas) : TSR_SUCCESS;
}

/* ---- its output ------------------------------------------------------------------------------ */

/* The number before `unit` in the text up to `end`; false if the text has no such number. */
static bool read_number(const char *text, const char *end, const char *unit, uint32_t *out_value) {
    const char *at = strstr(text, unit);
    if (!at || at >= end) return false;
    while (at > text && at[-1] == ' ') at--;
    const char *behind = at;
    while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
    if (at == behind) return false;
    *out_value = (uint32_t)strtoul(at, NULL, 10);
    return true;
}

/* The text after the kernel's name, NULL if there is no text. */
static const char *find_entry(const char *log, const char *name) {
    size_t length = strlen(name);
    while ((log = strstr(log, entry_mark)) != NULL) {
        log += sizeof entry_mark - 1;
        if (strncmp(log, name, length) == 0 && log[length] == '\'') return log;
    }
    return NULL;
}

/* "Compiling entry function 'NAME' …", then its resources: shared memory only if the kernel uses
 * some. */
static tsr_result read_resources(tsr_ctx *ctx, const tsr_ptxas *ptxas, const char *log,
                                 const char *name, tsr_fatbin_kernel *kernel) {
    const char *begin = find_entry(log, name);
    const char *end = begin ? strstr(begin, entry_mark) : NULL;
    uint32_t shared = 0;
    if (begin && !end) end = begin + strlen(begin);
    if (!begin || !read_number(begin, end, " registers", &kernel->registers) ||
        !read_number(begin, end, " bytes spill stores", &kernel->spill_bytes))
        FAIL(ctx, TSR_USAGE,
             "'%s' does not print the resources of kernel '%s'; expected registers and spills, as "
             "ptxas -v prints them",
             ptxas->path, name);
    if (read_number(begin, end, " bytes smem", &shared)) kernel->static_bytes = shared;
    return TSR_SUCCESS;
}

/* Checks for machine code of a GPU, with all of its sections. */
static tsr_result check_code(tsr_ctx *ctx, const tsr_ptxas *ptxas, const char *bytes,
                             size_t size_bytes) {
    Elf64_Ehdr header;
    if (size_bytes < sizeof header || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        FAIL(ctx, TSR_USAGE, "'%s' wrote %zu bytes that are not an ELF file; expected machine code",
             ptxas->path, size_bytes);
    memcpy(&header, bytes, sizeof header);
    if (bytes[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA)
        FAIL(ctx, TSR_USAGE,
             "'%s' wrote an ELF file of class %d for machine %u; expected class %d, machine %d "
             "(CUDA)",
             ptxas->path, bytes[EI_CLASS], header.e_machine, ELFCLASS64, EM_CUDA);
    uint64_t sections = (uint64_t)header.e_shnum * header.e_shentsize;
    if (header.e_shoff > size_bytes || sections > size_bytes - header.e_shoff)
        FAIL(ctx, TSR_USAGE,
             "'%s' wrote %zu bytes of an ELF file whose sections end at %" PRIu64 ": it is cut off",
             ptxas->path, size_bytes, header.e_shoff + sections);
    return TSR_SUCCESS;
}

const char *const tsr_ptxas_refusals[] = {"C7508", "C7510", "C7512", "C7518", NULL};

static const char *find_refusal(const char *log) {
    for (const char *const *code = tsr_ptxas_refusals; *code; code++)
        if (strstr(log, *code)) return *code;
    return NULL;
}

static tsr_result check_log(tsr_ctx *ctx, const tsr_target *target, int status, const char *log) {
    const char *code = find_refusal(log), *line = strstr(log, "fatal");
    if (!line) line = strstr(log, "error");
    if (!code && status == 0) return TSR_SUCCESS;
    if (code) line = strstr(log, code);
    if (!line) line = log;
    FAIL(ctx, TSR_COMPILE, "ptxas for '%s' ended with %d: %.*s", target->name, status,
         (int)strcspn(line, "\n"), line);
}

/* ---- assembling ------------------------------------------------------------------------------ */

/* PTX of `image` -> machine code and the assembler's messages, in the arena. */
static tsr_result assemble(tsr_ctx *ctx, const tsr_ptxas *ptxas, const tsr_target *target,
                           const tsr_fatbin_image *image, tsr_arena *arena,
                           tsr_fatbin_image *out_image, char **out_log) {
    const char *arch = tsr_arena_printf(arena, "-arch=%s", target->cpu);
    const char *args[] = {ptxas->path,       arch, "-v", "-o", "/proc/self/fd/4",
                          "/proc/self/fd/3", NULL};
    int files[] = {open_memory("ptx"), open_memory("cubin")}, log = open_memory("log"), status = 0;
    char *bytes = NULL;
    size_t size = 0, log_size = 0;
    tsr_result result = TSR_SUCCESS;
    if (!arch || files[0] < 0 || files[1] < 0 || log < 0)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory files for ptxas");
    TRY_GOTO(ctx, result, write_all(ctx, files[0], image->bytes, image->size_bytes - 1));
    TRY_GOTO(ctx, result, run_program(ctx, args, log, files, 2, &status));
    TRY_GOTO(ctx, result, read_all(ctx, log, LOG_BYTES_MAX, arena, out_log, &log_size));
    TRY_GOTO(ctx, result, check_log(ctx, target, status, *out_log));
    TRY_GOTO(ctx, result, read_all(ctx, files[1], CUBIN_BYTES_MAX, arena, &bytes, &size));
    TRY_GOTO(ctx, result, check_code(ctx, ptxas, bytes, size));
    *out_image =
        (tsr_fatbin_image){TSR_FATBIN_CUBIN, target->arch, target->arch_exactly, bytes, size};
done:
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0) close(files[i]);
    if (log >= 0) close(log);
    return result;
}

tsr_result tsr_ptxas_assemble(tsr_ctx *ctx, const tsr_ptxas *ptxas, MlirModule tile_module,
                              const tsr_target *target, tsr_arena *arena, void **inout_bytes,
                              size_t *inout_size_bytes) {
    tsr_fatbin fatbin;
    tsr_fatbin_image images[2];
    char *log = NULL;
    uint32_t index = 0;
    TRY(ctx, tsr_fatbin_decode(ctx, *inout_bytes, *inout_size_bytes, arena, &fatbin));
    TSR_ASSERT(fatbin.image_count == 1 && fatbin.images[0].kind == TSR_FATBIN_PTX);
    images[1] = fatbin.images[0];
    TRY(ctx, assemble(ctx, ptxas, target, &images[1], arena, &images[0], &log));
    tsr_fatbin_kernel *kernels =
        tsr_arena_memdup(arena, fatbin.kernels, (fatbin.kernel_count + 1) * sizeof *kernels);
    if (!kernels) FAIL(ctx, TSR_MEMORY, "no memory for %u kernels", fatbin.kernel_count);
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(tile_module)) {
        if (tsr_op_is(op, TSR_TILE_FUNC) && index < fatbin.kernel_count)
            TRY(ctx, read_resources(ctx, ptxas, log, tsr_op_symbol(op), &kernels[index++]));
    }
    fatbin.kernels = kernels;
    fatbin.images = images;
    fatbin.image_count = 2;
    return tsr_fatbin_encode(ctx, &fatbin, arena, inout_bytes, inout_size_bytes);
}
