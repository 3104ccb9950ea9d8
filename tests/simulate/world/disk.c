/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk as a process sees it: an in-memory file system that all processes share. Every operation
 * takes time, during which other processes run, and may fail according to the weather.
 */
#include "runtime/base/array.h"
#include "runtime/state/names.h"
#include "tests/simulate/world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096, BASE_BYTES = 96 };

typedef struct sim_file {
    int fd;
    uint64_t generation, epoch; /* the generation whose directory, gen/<epoch>-<generation>, is or
                                 * contains the file; or 0 */
    char name[SIM_NAME_BYTES];
} sim_file;

static sim_file *find_file(const sim_process *process, int fd) {
    for (size_t i = 0; i < process->file_count; i++)
        if (process->files[i].fd == fd) return &process->files[i];
    return NULL;
}

static const tsr_io *below(const sim_process *process) {
    return fault_io_table(process->world->disk);
}

/* ---- time and faults ---- */

/* Typical latencies of a disk with a cache, in µs: the minimum and the maximum addition. */
typedef struct latency {
    uint32_t least, more;
} latency;
static const latency quick = {2, 20}, medium = {20, 100}, slow = {200, 3000};

/* Returns 0 if the operation may proceed. */
static int begin(sim_process *process, latency takes) {
    sim_world *world = process->world;
    if (process->dead) {
        sim_sleep(process, 0);
        return -EIO;
    }
    uint64_t ns = SIM_US * (takes.least + sim_below(&world->dice, takes.more));
    if (world->weather.slowness) ns *= world->weather.slowness;
    sim_sleep(process, ns);
    if (process->dead) return -EIO;
    world->operation_count++;
    return 0;
}

static int fail(sim_process *process, int error) {
    process->world->error_count++;
    return -error;
}

/* Begins an operation that changes the file system. */
static int begin_change(sim_process *process, latency takes, bool grows) {
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR};
    sim_world *world = process->world;
    int code = begin(process, takes);
    if (code < 0) return code;
    if (grows && world->weather.full) return fail(process, ENOSPC);
    if (sim_chance(&world->dice, world->weather.error))
        return fail(process, errors[sim_below(&world->dice, grows ? 4 : 1)]);
    return 0;
}

/* Ends an operation that was done; it may report an error nevertheless. */
static int end_change(sim_process *process, int code) {
    sim_world *world = process->world;
    if (code < 0 || !sim_chance(&world->dice, world->weather.error / 4)) return code;
    return fail(process, EIO);
}

/* Begins an operation that only reads. Permanent read errors are damage of the medium, which the
 * atlas decides; here the next attempt succeeds. */
static int begin_look(sim_process *process, latency takes) {
    sim_world *world = process->world;
    int code = begin(process, takes);
    if (code < 0) return code;
    bool fails = !process->read_failed && sim_chance(&world->dice, world->weather.error);
    process->read_failed = fails;
    return fails ? fail(process, EIO) : 0;
}

/* ---- the table ---- */

static int io_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    sim_process *process = self;
    bool creates = flags & O_CREAT;
    int code = creates ? begin_change(process, medium, true) : begin_look(process, quick);
    if (code < 0) return code;
    int fd = below(process)->open(below(process)->self, dir, path, flags, mode);
    if (fd < 0) return fd;
    const sim_file *parent = find_file(process, dir);
    sim_file file = {.fd = fd};
    tsr_name name = tsr_name_parse(path);
    if (name.kind == TSR_NAME_GENERATION) {
        file.generation = name.generation;
        file.epoch = name.epoch;
    } else if (parent) {
        file.generation = parent->generation;
        file.epoch = parent->epoch;
    }
    snprintf(file.name, sizeof file.name, "%s", path);
    if (process->file_count == process->file_capacity) {
        process->files =
            tsr_grow(process->files, &process->file_capacity, 8, sizeof *process->files);
        if (!process->files) abort();
    }
    process->files[process->file_count++] = file;
    return fd;
}

static int io_close(void *self, int fd) {
    sim_process *process = self;
    if (process->dead) return -EIO;
    sim_file *file = find_file(process, fd);
    TSR_ASSERT(file); /* closed twice, or belongs to another process */
    int code = below(process)->close(below(process)->self, fd);
    *file = process->files[--process->file_count];
    /* Linux closes the file and may report an earlier error. */
    if (!code && sim_chance(&process->world->dice, process->world->weather.error))
        return fail(process, EIO);
    return code;
}

static ssize_t io_pread(void *self, int fd, void *bytes, size_t size_bytes, off_t offset) {
    sim_process *process = self;
    sim_world *world = process->world;
    int code = begin_look(process, medium);
    if (code < 0) return code;
    /* Reads whole blocks, since direct I/O must stay aligned. */
    size_t half = size_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES;
    if (half && sim_chance(&world->dice, world->weather.short_write)) size_bytes = half;
    return below(process)->pread(below(process)->self, fd, bytes, size_bytes, offset);
}

/* True if this write must go to a wrong offset in its file. The bytes at the right offset are
 * missing then. */
static bool goes_astray(const sim_process *process, const sim_file *file, size_t size_bytes) {
    sim_world *world = process->world;
    sim_watch *watch = &world->watch;
    bool record = tsr_name_parse(file->name).kind == TSR_NAME_TEMP && size_bytes > BASE_BYTES;
    return sim_chance(&world->dice, world->weather.misdirect) && (file->generation || record) &&
           watch->may_damage && watch->may_damage(watch->self);
}

static void went_astray(sim_process *process, const sim_file *file) {
    sim_watch *watch = &process->world->watch;
    process->world->error_count++;
    if (file->generation)
        watch->damaged(watch->self, file->generation, file->epoch);
    else
        memcpy(process->spoiled, file->name, sizeof process->spoiled);
}

static ssize_t io_pwrite(void *self, int fd, const void *bytes, size_t size_bytes, off_t offset) {
    static const size_t parts[] = {1, 511, 512, 4095};
    sim_process *process = self;
    sim_world *world = process->world;
    int code = begin_change(process, medium, true);
    if (code < 0) return code;
    if (size_bytes && sim_chance(&world->dice, world->weather.short_write)) {
        size_t part = parts[sim_below(&world->dice, 4)];
        if (part < size_bytes) size_bytes = part;
    }
    sim_file *file = find_file(process, fd);
    TSR_ASSERT(file);
    bool astray = goes_astray(process, file, size_bytes);
    if (astray) offset += BLOCK_BYTES * (off_t)sim_between(&world->dice, 1, 4);
    ssize_t done = below(process)->pwrite(below(process)->self, fd, bytes, size_bytes, offset);
    if (astray && done > 0) went_astray(process, file);
    return done;
}

/* A sync that fails drops the data that it should have written, and the next sync reports no
 * error. */
static int io_fsync(void *self, int fd) {
    sim_process *process = self;
    fault_io *disk = process->world->disk;
    const fault_plan drop = {
        .kind = FAULT_SYNC_DROPS, .at = 1, .name = "fsync", .error = EIO, .persistent = true};
    int code = begin_change(process, slow, false);
    if (process->dead) return code;
    if (code < 0)
        sim_log(process->world, "{\"who\":\"world\",\"event\":\"dropped\",\"pid\":%u}",
                process->pid);
    fault_io_arm(disk, code < 0 ? &drop : NULL);
    code = below(process)->fsync(below(process)->self, fd);
    fault_io_arm(disk, NULL);
    return code;
}
static int io_fallocate(void *self, int fd, off_t size_bytes) {
    sim_process *process = self;
    int code = begin_change(process, medium, true);
    return code < 0 ? code
                    : end_change(process,
                                 below(process)->fallocate(below(process)->self, fd, size_bytes));
}
static int io_ftruncate(void *self, int fd, off_t size_bytes) {
    sim_process *process = self;
    int code = begin_change(process, quick, false);
    return code < 0 ? code
                    : end_change(process,
                                 below(process)->ftruncate(below(process)->self, fd, size_bytes));
}
static int io_fstat(void *self, int fd, struct stat *out_stat) {
    sim_process *process = self;
    int code = begin(process, quick);
    return code < 0 ? code : below(process)->fstat(below(process)->self, fd, out_stat);
}
static int io_mkdir(void *self, int dir, const char *path, mode_t mode) {
    sim_process *process = self;
    int code = begin_change(process, medium, true);
    return code < 0
               ? code
               : end_change(process, below(process)->mkdir(below(process)->self, dir, path, mode));
}

/* The temporary file of a record is already closed, so a misdirected record is known by its
 * name. */
static int io_link(void *self, int dir, const char *from, const char *to) {
    sim_process *process = self;
    sim_watch *watch = &process->world->watch;
    tsr_name name = tsr_name_parse(to);
    int code = begin_change(process, medium, true);
    if (code < 0) return code;
    code = below(process)->link(below(process)->self, dir, from, to);
    if (code >= 0 && name.kind == TSR_NAME_MANIFEST && strcmp(process->spoiled, from) == 0)
        watch->damaged(watch->self, name.generation, name.epoch);
    return end_change(process, code);
}
static int io_rename(void *self, int dir, const char *from, const char *to) {
    sim_process *process = self;
    int code = begin_change(process, medium, true);
    return code < 0
               ? code
               : end_change(process, below(process)->rename(below(process)->self, dir, from, to));
}
static int io_unlink(void *self, int dir, const char *path, int flags) {
    sim_process *process = self;
    int code = begin_change(process, medium, false);
    return code < 0 ? code
                    : end_change(process,
                                 below(process)->unlink(below(process)->self, dir, path, flags));
}
static int io_list(void *self, int fd, tsr_io_entry_fn entry, void *user) {
    sim_process *process = self;
    int code = begin_look(process, medium);
    return code < 0 ? code : below(process)->list(below(process)->self, fd, entry, user);
}
static int io_lock(void *self, int fd) {
    sim_process *process = self;
    int code = begin(process, quick);
    return code < 0 ? code : below(process)->lock(below(process)->self, fd);
}
static int io_drop_cache(void *self, int fd) {
    sim_process *process = self;
    int code = begin(process, quick);
    return code < 0 ? code : below(process)->drop_cache(below(process)->self, fd);
}
static int io_fs_type(void *self, int fd, uint64_t *out_magic) {
    sim_process *process = self;
    int code = begin(process, quick);
    return code < 0 ? code : below(process)->fs_type(below(process)->self, fd, out_magic);
}

void sim_disk_attach(sim_process *process) {
    process->io = (tsr_io){
        .self = process,
        .open = io_open,
        .close = io_close,
        .pread = io_pread,
        .pwrite = io_pwrite,
        .fsync = io_fsync,
        .fallocate = io_fallocate,
        .ftruncate = io_ftruncate,
        .fstat = io_fstat,
        .mkdir = io_mkdir,
        .link = io_link,
        .rename = io_rename,
        .unlink = io_unlink,
        .list = io_list,
        .lock = io_lock,
        .drop_cache = io_drop_cache,
        .fs_type = io_fs_type,
    };
    process->ctx.io = &process->io;
}

void sim_disk_detach(sim_process *process) {
    for (size_t i = 0; i < process->file_count; i++)
        below(process)->close(below(process)->self, process->files[i].fd);
    process->file_count = 0;
}
