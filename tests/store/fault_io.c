/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "tests/store/fault_state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FD_FIRST = 1000, DIRECT_ALIGN = 4096, PATH_MAX_BYTES = 1024, OPERATIONS_MAX = 20000 };

/* ---- memory ---- */

void *fault_checked(void *memory) {
    if (!memory) abort();
    return memory;
}

void fault_resize(fault_bytes *b, size_t size) {
    b->data = fault_checked(realloc(b->data, size + 1));
    if (size > b->size) memset(b->data + b->size, 0, size - b->size);
    b->size = size;
}

void fault_copy(fault_bytes *to, const fault_bytes *from) {
    to->data = fault_checked(realloc(to->data, from->size + 1));
    if (from->size) memcpy(to->data, from->data, from->size);
    to->size = from->size;
}

static int new_node(fault_io *disk, bool is_dir) {
    if (disk->node_count == disk->node_capacity) {
        disk->nodes =
            fault_checked(tsr_grow(disk->nodes, &disk->node_capacity, 64, sizeof *disk->nodes));
    }
    disk->nodes[disk->node_count] = (fault_node){.is_dir = is_dir};
    return (int)disk->node_count++;
}

static void add_entry(fault_node *dir, const char *name, int target) {
    if (dir->entry_count == dir->entry_capacity) {
        dir->entries =
            fault_checked(tsr_grow(dir->entries, &dir->entry_capacity, 16, sizeof *dir->entries));
    }
    fault_entry *e = &dir->entries[dir->entry_count++];
    *e = (fault_entry){.node = target, .live = true};
    memcpy(e->name, name, strlen(name) + 1);
}

void fault_forget(fault_node *dir) {
    size_t saved = 0;
    for (size_t i = 0; i < dir->entry_count; i++)
        if (dir->entries[i].live || dir->entries[i].durable)
            dir->entries[saved++] = dir->entries[i];
    dir->entry_count = saved;
}

static fault_entry *find(fault_node *dir, const char *name) {
    for (size_t i = 0; i < dir->entry_count; i++)
        if (dir->entries[i].live && strcmp(dir->entries[i].name, name) == 0)
            return &dir->entries[i];
    return NULL;
}

/* Returns the node of the directory that contains the last component of the path, or -errno. Copies
 * this component to `name`; it is empty if the path names the start itself. */
static int resolve(fault_io *disk, int dir, const char *path, char name[static 112]) {
    int at = 0;
    if (path[0] != '/' && dir != TSR_IO_CWD) {
        int index = dir - FD_FIRST;
        if (index < 0 || index >= FAULT_FDS_MAX || !disk->fds[index].used) return -EBADF;
        at = disk->fds[index].node;
    }
    name[0] = 0;
    for (;;) {
        while (*path == '/') path++;
        size_t length = strcspn(path, "/");
        if (!length) return at;
        if (length >= 112) return -ENAMETOOLONG;
        if (length == 1 && path[0] == '.') {
            path++;
            continue;
        }
        if (name[0]) {
            fault_entry *e = find(&disk->nodes[at], name);
            if (!e) return -ENOENT;
            at = e->node;
        }
        if (!disk->nodes[at].is_dir) return -ENOTDIR;
        memcpy(name, path, length);
        name[length] = 0;
        path += length;
    }
}

/* ---- faults ---- */

_Thread_local unsigned fault_io_depth;

static bool is_hit(const fault_io *disk, size_t which, const char *name) {
    const fault_plan *plan = &disk->plans[which];
    return plan->kind != FAULT_NONE && plan->at && (!plan->name || strcmp(plan->name, name) == 0) &&
           (disk->matched[which] == plan->at ||
            (plan->persistent && disk->matched[which] > plan->at));
}

static void note_hit(fault_io *disk, size_t which, const char *name) {
    disk->fired[which] = true;
    if (!disk->fired_name) disk->fired_name = name;
}

/* The result of an operation that is replaced after the operation was done. */
typedef struct after {
    bool crash;
    int error;
} after;

static int apply(fault_io *disk, size_t which, const char *name, after *out_after) {
    const fault_plan *plan = &disk->plans[which];
    if (plan->kind == FAULT_SHORT_WRITE || !is_hit(disk, which, name)) return 0;
    note_hit(disk, which, name);
    switch (plan->kind) {
    case FAULT_CALL:
        fault_io_depth--;
        pthread_mutex_unlock(&disk->mutex);
        plan->call(plan->call_user);
        pthread_mutex_lock(&disk->mutex);
        fault_io_depth++;
        return 0;
    case FAULT_CRASH_BEFORE:
        disk->dead = true;
        return -EIO;
    case FAULT_CRASH_AFTER:
        out_after->crash = true;
        return 0;
    case FAULT_ERROR_AFTER:
        out_after->error = plan->error;
        return 0;
    default:
        return -plan->error;
    }
}

/* Called at the start of every operation. Returns 0, or a result that the operation returns at
 * once. The mutex is locked until leave(). */
static int enter(fault_io *disk, const char *name, after *out_after) {
    int result = 0;
    pthread_mutex_lock(&disk->mutex);
    fault_io_depth++;
    *out_after = (after){0};
    if (disk->dead) return -EIO;
    disk->count++;
    for (size_t i = 0; i < 2; i++)
        if (!disk->plans[i].name || strcmp(disk->plans[i].name, name) == 0) disk->matched[i]++;
    if (disk->plans[0].kind != FAULT_NONE && disk->count > OPERATIONS_MAX)
        disk->dead = disk->endless = true;
    if (disk->dead) return -EIO;
    for (size_t i = 0; i < 2 && !result; i++) result = apply(disk, i, name, out_after);
    return result;
}

static int leave(fault_io *disk, after what, int result) {
    if (what.crash) disk->dead = true;
    if (what.crash || (what.error && result >= 0)) result = what.crash ? -EIO : -what.error;
    fault_io_depth--;
    pthread_mutex_unlock(&disk->mutex);
    return result;
}

#define OPERATION(disk, name, body)                                                                \
    do {                                                                                           \
        after after_;                                                                              \
        int result_ = enter((disk), (name), &after_);                                              \
        if (!result_) result_ = (body);                                                            \
        return leave((disk), after_, result_);                                                     \
    } while (0)

/* ---- operations, with the mutex held ---- */

static int do_open(fault_io *disk, int dir, const char *path, int flags) {
    char name[112];
    int parent = resolve(disk, dir, path, name), target = parent;
    if (parent < 0) return parent;
    if ((flags & O_DIRECT) && disk->direct == FAULT_DIRECT_NOT_OPENED) return -EINVAL;
    if (name[0]) {
        fault_entry *e = find(&disk->nodes[parent], name);
        if (e && (flags & O_CREAT) && (flags & O_EXCL)) return -EEXIST;
        if (!e && !(flags & O_CREAT)) return -ENOENT;
        target = e ? e->node : new_node(disk, false);
        if (!e) add_entry(&disk->nodes[parent], name, target);
    }
    fault_node *n = &disk->nodes[target];
    if ((flags & O_DIRECTORY) && !n->is_dir) return -ENOTDIR;
    if (n->is_dir && (flags & O_ACCMODE) != O_RDONLY) return -EISDIR;
    if (flags & O_TRUNC) fault_resize(&n->now, 0);
    for (int i = 0; i < FAULT_FDS_MAX; i++)
        if (!disk->fds[i].used) {
            disk->fds[i] =
                (fault_descriptor){.used = true, .node = target, .direct = (flags & O_DIRECT) != 0};
            return FD_FIRST + i;
        }
    return -EMFILE;
}

static fault_descriptor *get(fault_io *disk, int fd) {
    int index = fd - FD_FIRST;
    return index >= 0 && index < FAULT_FDS_MAX && disk->fds[index].used ? &disk->fds[index] : NULL;
}

/* Direct I/O moves only whole blocks, from and to aligned memory. Data that was written this way is
 * no more durable than other data, since disks have caches, too. */
static bool is_refused(fault_io *disk, const fault_descriptor *d, const void *memory,
                       size_t size_bytes, off_t offset) {
    if (!d->direct) return false;
    disk->direct_count++;
    return disk->direct == FAULT_DIRECT_NOT_USED || (uintptr_t)memory % DIRECT_ALIGN ||
           size_bytes % DIRECT_ALIGN || (uint64_t)offset % DIRECT_ALIGN;
}

static int do_sync(fault_io *disk, int fd) {
    fault_descriptor *d = get(disk, fd);
    if (!d) return -EBADF;
    fault_node *n = &disk->nodes[d->node];
    if (!n->is_dir && !n->stuck) fault_copy(&n->synced, &n->now);
    for (size_t i = 0; i < n->entry_count; i++)
        if (!n->entries[i].stuck) n->entries[i].durable = n->entries[i].live;
    fault_forget(n);
    return 0;
}

static void drop_pages(fault_io *disk, int fd) {
    fault_descriptor *d = get(disk, fd);
    if (!d) return;
    fault_node *n = &disk->nodes[d->node];
    n->stuck = true;
    for (size_t i = 0; i < n->entry_count; i++)
        if (n->entries[i].live != n->entries[i].durable) n->entries[i].stuck = true;
}

static int do_size(fault_io *disk, int fd, off_t size, bool grow_only) {
    fault_descriptor *d = get(disk, fd);
    if (!d || disk->nodes[d->node].is_dir) return -EBADF;
    fault_bytes *b = &disk->nodes[d->node].now;
    if (!grow_only || (size_t)size > b->size) fault_resize(b, (size_t)size);
    return 0;
}

static int do_mkdir(fault_io *disk, int dir, const char *path) {
    char name[112];
    int parent = resolve(disk, dir, path, name);
    if (parent < 0) return parent;
    if (!name[0] || find(&disk->nodes[parent], name)) return -EEXIST;
    int target = new_node(disk, true);
    add_entry(&disk->nodes[parent], name, target);
    return 0;
}

static int do_link(fault_io *disk, int dir, const char *from, const char *to, bool move) {
    char old_name[112], new_name[112];
    int old_parent = resolve(disk, dir, from, old_name);
    int new_parent = resolve(disk, dir, to, new_name);
    if (old_parent < 0) return old_parent;
    if (new_parent < 0) return new_parent;
    fault_entry *source = find(&disk->nodes[old_parent], old_name);
    fault_entry *target = find(&disk->nodes[new_parent], new_name);
    if (!source) return -ENOENT;
    if (target && !move) return -EEXIST;
    if (target) target->live = false;
    int moved = source->node;
    if (move) source->live = false;
    add_entry(&disk->nodes[new_parent], new_name, moved);
    fault_forget(&disk->nodes[old_parent]);
    fault_forget(&disk->nodes[new_parent]);
    return 0;
}

static int do_unlink(fault_io *disk, int dir, const char *path, int flags) {
    char name[112];
    int parent = resolve(disk, dir, path, name);
    if (parent < 0) return parent;
    fault_entry *e = find(&disk->nodes[parent], name);
    if (!e) return -ENOENT;
    const fault_node *n = &disk->nodes[e->node];
    if (n->is_dir != (flags == AT_REMOVEDIR)) return n->is_dir ? -EISDIR : -ENOTDIR;
    for (size_t i = 0; n->is_dir && i < n->entry_count; i++)
        if (n->entries[i].live) return -ENOTEMPTY;
    e->live = false;
    fault_forget(&disk->nodes[parent]);
    return 0;
}

static int do_lock(fault_io *disk, int fd) {
    fault_descriptor *d = get(disk, fd);
    if (!d) return -EBADF;
    for (int i = 0; i < FAULT_FDS_MAX; i++)
        if (disk->fds[i].used && disk->fds[i].locks && disk->fds[i].node == d->node &&
            &disk->fds[i] != d)
            return -EWOULDBLOCK;
    d->locks = true;
    return 0;
}

static int do_stat(fault_io *disk, int fd, struct stat *out_stat) {
    const fault_descriptor *d = get(disk, fd);
    if (!d) return -EBADF;
    const fault_node *n = &disk->nodes[d->node];
    *out_stat = (struct stat){.st_mode = n->is_dir ? S_IFDIR | 0755 : S_IFREG | 0644,
                              .st_size = (off_t)n->now.size};
    return 0;
}

/* ---- the table ---- */

static int io_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    fault_io *disk = self;
    after what;
    (void)mode;
    int result = enter(disk, "open", &what);
    if (!result) result = do_open(disk, dir, path, flags);
    fault_descriptor *d = what.error || what.crash ? get(disk, result) : NULL;
    if (d) *d = (fault_descriptor){0}; /* the caller will not learn its number */
    return leave(disk, what, result);
}
/* Closes the descriptor even when it fails, as Linux does. A crashed machine has no open files. */
static int io_close(void *self, int fd) {
    fault_io *disk = self;
    after what;
    int result = enter(disk, "close", &what);
    fault_descriptor *d = get(disk, fd);
    if (d) *d = (fault_descriptor){0};
    return leave(disk, what, result);
}
static ssize_t io_pread(void *self, int fd, void *to, size_t size_bytes, off_t offset) {
    fault_io *disk = self;
    after what;
    ssize_t result = enter(disk, "pread", &what);
    const fault_descriptor *d = get(disk, fd);
    if (!result && !d) result = -EBADF;
    if (!result && is_refused(disk, d, to, size_bytes, offset)) result = -EINVAL;
    if (!result) {
        const fault_bytes *b = &disk->nodes[d->node].now;
        size_t at = (size_t)offset < b->size ? (size_t)offset : b->size;
        result = (ssize_t)(size_bytes < b->size - at ? size_bytes : b->size - at);
        if (result) memcpy(to, b->data + at, (size_t)result);
    }
    return leave(disk, what, (int)result);
}
static ssize_t io_pwrite(void *self, int fd, const void *from, size_t size_bytes, off_t offset) {
    fault_io *disk = self;
    after what;
    int result = enter(disk, "pwrite", &what);
    const fault_descriptor *d = get(disk, fd);
    if (!result && !d) result = -EBADF;
    if (!result && is_refused(disk, d, from, size_bytes, offset)) result = -EINVAL;
    if (!result) {
        for (size_t i = 0; i < 2; i++) {
            const fault_plan *plan = &disk->plans[i];
            if (plan->kind != FAULT_SHORT_WRITE || !is_hit(disk, i, "pwrite")) continue;
            note_hit(disk, i, "pwrite");
            if (plan->part_bytes < size_bytes) size_bytes = plan->part_bytes;
        }
        fault_bytes *b = &disk->nodes[d->node].now;
        if ((size_t)offset + size_bytes > b->size) fault_resize(b, (size_t)offset + size_bytes);
        if (size_bytes) memcpy(b->data + offset, from, size_bytes);
        result = (int)size_bytes;
    }
    return leave(disk, what, result);
}
static int io_fsync(void *self, int fd) {
    fault_io *disk = self;
    after what;
    int result = enter(disk, "fsync", &what);
    if (!result)
        result = do_sync(disk, fd);
    else
        for (size_t i = 0; i < 2 && !disk->dead; i++)
            if (disk->plans[i].kind == FAULT_SYNC_DROPS && is_hit(disk, i, "fsync"))
                drop_pages(disk, fd);
    return leave(disk, what, result);
}
static int io_fallocate(void *self, int fd, off_t size_bytes) {
    OPERATION((fault_io *)self, "fallocate", do_size(self, fd, size_bytes, true));
}
static int io_ftruncate(void *self, int fd, off_t size_bytes) {
    OPERATION((fault_io *)self, "ftruncate", do_size(self, fd, size_bytes, false));
}
static int io_fstat(void *self, int fd, struct stat *out_stat) {
    OPERATION((fault_io *)self, "fstat", do_stat(self, fd, out_stat));
}
static int io_mkdir(void *self, int dir, const char *path, mode_t mode) {
    (void)mode;
    OPERATION((fault_io *)self, "mkdir", do_mkdir(self, dir, path));
}
static int io_link(void *self, int dir, const char *from, const char *to) {
    OPERATION((fault_io *)self, "link", do_link(self, dir, from, to, false));
}
static int io_rename(void *self, int dir, const char *from, const char *to) {
    OPERATION((fault_io *)self, "rename", do_link(self, dir, from, to, true));
}
static int io_unlink(void *self, int dir, const char *path, int flags) {
    OPERATION((fault_io *)self, "unlink", do_unlink(self, dir, path, flags));
}
/* Lists a copy of the entries, because the callback may use the table. */
static int io_list(void *self, int fd, tsr_io_entry_fn callback, void *user) {
    fault_io *disk = self;
    after what;
    int result = enter(disk, "list", &what);
    const fault_descriptor *d = get(disk, fd);
    fault_entry *copy = NULL;
    size_t count = 0;
    if (!result && !d) result = -EBADF;
    if (!result) {
        const fault_node *n = &disk->nodes[d->node];
        count = n->entry_count;
        copy = fault_checked(malloc((count + 1) * sizeof *copy));
        if (count) memcpy(copy, n->entries, count * sizeof *copy);
    }
    result = leave(disk, what, result);
    for (size_t i = 0; !result && i < count; i++)
        if (copy[i].live) result = callback(user, copy[i].name);
    free(copy);
    return result;
}
static int io_lock(void *self, int fd) { OPERATION((fault_io *)self, "lock", do_lock(self, fd)); }
static int io_drop_cache(void *self, int fd) {
    OPERATION((fault_io *)self, "drop_cache", get(self, fd) ? 0 : -EBADF);
}
static int io_fs_type(void *self, int fd, uint64_t *out_magic) {
    (void)fd;
    OPERATION((fault_io *)self, "fs_type", (*out_magic = ((fault_io *)self)->fs_type, 0));
}

/* ---- life ---- */

static const tsr_io functions = {
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

fault_io *fault_io_create(void) {
    fault_io *disk = fault_checked(calloc(1, sizeof *disk));
    disk->table = functions;
    disk->table.self = disk;
    pthread_mutex_init(&disk->mutex, NULL);
    new_node(disk, true);
    return disk;
}

fault_io *fault_io_clone(const fault_io *disk) {
    fault_io *copy = fault_io_create();
    copy->fs_type = disk->fs_type;
    copy->direct = disk->direct;
    while (copy->node_count < disk->node_count) new_node(copy, false);
    for (size_t i = 0; i < disk->node_count; i++) {
        const fault_node *from = &disk->nodes[i];
        fault_node *to = &copy->nodes[i];
        *to = (fault_node){.is_dir = from->is_dir, .stuck = from->stuck};
        fault_copy(&to->now, &from->now);
        fault_copy(&to->synced, &from->synced);
        to->entry_count = to->entry_capacity = from->entry_count;
        to->entries = fault_checked(malloc((from->entry_count + 1) * sizeof *to->entries));
        if (from->entry_count)
            memcpy(to->entries, from->entries, from->entry_count * sizeof *to->entries);
    }
    return copy;
}

void fault_io_destroy(fault_io *disk) {
    if (!disk) return;
    for (size_t i = 0; i < disk->node_count; i++) {
        free(disk->nodes[i].now.data);
        free(disk->nodes[i].synced.data);
        free(disk->nodes[i].entries);
    }
    free(disk->nodes);
    pthread_mutex_destroy(&disk->mutex);
    free(disk);
}

const tsr_io *fault_io_table(fault_io *disk) { return &disk->table; }
uint64_t fault_io_count(const fault_io *disk) { return disk->count; }
uint64_t fault_io_matched(const fault_io *disk) { return disk->matched[0]; }
bool fault_io_is_dead(const fault_io *disk) { return disk->dead; }
bool fault_io_is_endless(const fault_io *disk) { return disk->endless; }
bool fault_io_fired(const fault_io *disk) { return disk->fired_name != NULL; }
bool fault_io_both_fired(const fault_io *disk) { return disk->fired[0] && disk->fired[1]; }
const char *fault_io_fired_name(const fault_io *disk) {
    return disk->fired_name ? disk->fired_name : "";
}
void fault_io_set_fs_type(fault_io *disk, uint64_t magic) { disk->fs_type = magic; }
void fault_io_set_direct(fault_io *disk, fault_direct direct) { disk->direct = direct; }
uint64_t fault_io_direct_count(const fault_io *disk) { return disk->direct_count; }

void fault_io_arm_pair(fault_io *disk, const fault_plan *first, const fault_plan *second) {
    disk->plans[0] = first ? *first : (fault_plan){0};
    disk->plans[1] = second ? *second : (fault_plan){0};
    disk->count = disk->matched[0] = disk->matched[1] = 0;
    disk->fired[0] = disk->fired[1] = disk->endless = false;
    disk->fired_name = NULL;
}
void fault_io_arm(fault_io *disk, const fault_plan *plan) { fault_io_arm_pair(disk, plan, NULL); }

size_t fault_io_open_count(const fault_io *disk) {
    size_t count = 0;
    for (int i = 0; i < FAULT_FDS_MAX; i++) count += disk->fds[i].used;
    return count;
}

void fault_io_drop_locks(fault_io *disk) {
    for (int i = 0; i < FAULT_FDS_MAX; i++) disk->fds[i].locks = false;
}

/* ---- looking inside ---- */

uint8_t *fault_io_bytes(fault_io *disk, const char *path, size_t *out_size_bytes) {
    char name[112];
    int parent = resolve(disk, TSR_IO_CWD, path, name);
    const fault_entry *e = parent < 0 ? NULL : find(&disk->nodes[parent], name);
    if (!e || disk->nodes[e->node].is_dir) return NULL;
    *out_size_bytes = disk->nodes[e->node].now.size;
    return disk->nodes[e->node].now.data;
}

static void visit(fault_io *disk, int at, const char *prefix,
                  void (*file)(void *user, const char *path), void *user) {
    for (size_t i = 0; i < disk->nodes[at].entry_count; i++) {
        const fault_entry *e = &disk->nodes[at].entries[i];
        char path[PATH_MAX_BYTES];
        if (!e->live || strlen(prefix) + strlen(e->name) + 2 > sizeof path) continue;
        strcpy(path, prefix);
        strcat(path, "/");
        strcat(path, e->name);
        if (disk->nodes[e->node].is_dir)
            visit(disk, e->node, path, file, user);
        else
            file(user, path);
    }
}

void fault_io_each_file(fault_io *disk, void (*file)(void *user, const char *path), void *user) {
    visit(disk, 0, "", file, user);
}

bool fault_io_remove(fault_io *disk, const char *path) {
    if (do_unlink(disk, TSR_IO_CWD, path, 0) < 0) return false;
    return true;
}
