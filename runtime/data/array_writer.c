/* SPDX-License-Identifier: Apache-2.0
 *
 * All offsets in the file are computed first; then headers and, as they arrive, elements are
 * written. For a zip, the local headers with their checksums and the directory are written at the
 * end (APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3). Every size and offset of a zip is stored in the
 * zip64 fields, so that files of any size are written in the same way.
 */
#include "runtime/data/array_writer.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/data/array_source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    LOCAL_BYTES = 30,
    LOCAL_EXTRA_BYTES = 4 + 2 * 8, /* id, length; size, packed size */
    ENTRY_EXTRA_BYTES = 4 + 3 * 8, /* the same, and the offset of the local header */
    END64_BYTES = 56,
    VERSION_ZIP64 = 45,
    MADE_ON_UNIX = 3 << 8,
    FLAG_UTF8 = 0x800,
    EXTRA_ZIP64 = 1,
    MODE_PLAIN_FILE = 0100644,
    DATE_NONE = 0x21, /* 1980-01-01, the earliest possible */
    HEADERS_MAX =
        1 << 16, /* bytes per array: a name that occurs three times, a format's overhead */
};

typedef struct stream {
    uint64_t next, end;    /* offsets in the file: of the next element, after the last element */
    const char *member;    /* member name in a zip, in the arena */
    uint64_t local, begin; /* offsets of its local header and of its first byte */
    uint32_t crc;          /* checksum of its bytes so far */
} stream;

typedef struct array_format {
    const char *suffix;
    enum {
        FORMAT_STREAM,
        FORMAT_NPY,
        FORMAT_NPZ,
        FORMAT_SAFETENSORS,
        FORMAT_FLAT,
        FORMAT_TEXT
    } kind;
    bool holds_several;
} array_format;

static const array_format formats[] = {{".npy", FORMAT_NPY, false},
                                       {".npz", FORMAT_NPZ, true},
                                       {".safetensors", FORMAT_SAFETENSORS, true},
                                       {".bin", FORMAT_FLAT, false},
                                       {".txt", FORMAT_TEXT, false}};

static const array_format stream_format = {TSR_ARRAY_STREAM, FORMAT_STREAM, false};

struct tsr_array_writer {
    tsr_arena arena;
    tsr_io_atomic file;
    const char *path; /* in the arena */
    stream *streams;  /* in the arena */
    size_t count;
    const array_format *format;
    const void *unsent; /* header that standard output has not got yet, in the arena; NULL: none */
    size_t unsent_bytes;
    uint64_t
        size_bytes; /* end of the parts with offsets; finally the offset of a zip's directory */
};

/* ---- offsets ---- */

static uint64_t array_size(const tsr_tensor *array) {
    uint64_t size = 0;
    bool sane = tsr_shape_size(&array->shape, array->dtype, &size);
    TSR_ASSERT(sane);
    return size;
}

/* Checks the total size once, with room for the headers. */
static tsr_result check_size(tsr_ctx *ctx, const tsr_array_writer *self, const tsr_tensor *arrays) {
    uint64_t total = 0, size = 0;
    for (size_t i = 0; i < self->count; i++)
        if (!tsr_shape_size(&arrays[i].shape, arrays[i].dtype, &size) ||
            __builtin_add_overflow(total, size + HEADERS_MAX, &total) || total > INT64_MAX)
            FAIL(ctx, TSR_USAGE, "'%s' would have 2^63 bytes or more", self->path);
    return TSR_SUCCESS;
}

/* Standard output may be a pipe: it has no offsets. */
static tsr_result write_stream(tsr_ctx *ctx, const void *bytes, size_t size_bytes) {
    for (const char *at = bytes; size_bytes;) {
        ssize_t put = write(STDOUT_FILENO, at, size_bytes);
        if (put < 0 && tsr_io_retry(STDOUT_FILENO, POLLOUT)) continue;
        if (put < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot write to standard output");
        at += put;
        size_bytes -= (size_t)put;
    }
    return TSR_SUCCESS;
}

/* The reader of standard output gets the header with the first elements, or at the end: a call that
 * fails before, as when another output cannot be opened, writes nothing. */
static tsr_result send_header(tsr_ctx *ctx, tsr_array_writer *self) {
    if (!self->unsent) return TSR_SUCCESS;
    TRY(ctx, write_stream(ctx, self->unsent, self->unsent_bytes));
    self->unsent = NULL;
    return TSR_SUCCESS;
}

static tsr_result write_bytes(tsr_ctx *ctx, tsr_array_writer *self, const void *bytes,
                              size_t size_bytes, uint64_t offset) {
    if (self->format->kind == FORMAT_STREAM) {
        TRY(ctx, send_header(ctx, self));
        return write_stream(ctx, bytes, size_bytes);
    }
    return tsr_io_write_all(ctx, self->file.fd, self->path, bytes, size_bytes, offset);
}

/* `bytes` are in the arena. */
static tsr_result write_header(tsr_ctx *ctx, tsr_array_writer *self, stream *to, const void *bytes,
                               size_t size_bytes) {
    if (self->format->kind == FORMAT_STREAM) {
        self->unsent = bytes;
        self->unsent_bytes = size_bytes;
    } else
        TRY(ctx, write_bytes(ctx, self, bytes, size_bytes, self->size_bytes));
    to->begin = self->size_bytes;
    to->crc = (uint32_t)crc32_z(0, bytes, size_bytes);
    self->size_bytes += size_bytes;
    return TSR_SUCCESS;
}

static tsr_result begin_npy(tsr_ctx *ctx, tsr_array_writer *self, const tsr_tensor *array,
                            stream *to) {
    void *header = NULL;
    size_t header_bytes = 0;
    TRY(ctx,
        tsr_npy_header(ctx, array->dtype, &array->shape, &self->arena, &header, &header_bytes));
    TRY(ctx, write_header(ctx, self, to, header, header_bytes));
    to->next = self->size_bytes;
    self->size_bytes += array_size(array);
    to->end = self->size_bytes;
    return TSR_SUCCESS;
}

static tsr_result begin_member(tsr_ctx *ctx, tsr_array_writer *self, const tsr_tensor *array,
                               stream *to) {
    to->member = tsr_arena_printf(&self->arena, "%s.npy", array->name);
    if (!to->member) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", self->path);
    to->local = self->size_bytes;
    self->size_bytes += LOCAL_BYTES + strlen(to->member) + LOCAL_EXTRA_BYTES;
    return begin_npy(ctx, self, array, to);
}

static tsr_result begin_safetensors(tsr_ctx *ctx, tsr_array_writer *self,
                                    const tsr_tensor *arrays) {
    void *header = NULL;
    size_t header_bytes = 0;
    stream unused;
    uint64_t *offsets = TSR_NEW(&self->arena, uint64_t, self->count + 1);
    if (!offsets) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", self->path);
    TRY(ctx, tsr_safetensors_assign_offsets(ctx, arrays, self->count, TSR_SAFETENSORS_ALIGN_BYTES,
                                            &self->arena, &header, &header_bytes, offsets));
    TRY(ctx, write_header(ctx, self, &unused, header, header_bytes));
    for (size_t i = 0; i < self->count; i++) {
        self->streams[i].next = header_bytes + offsets[i];
        self->streams[i].end = self->streams[i].next + array_size(&arrays[i]);
    }
    return TSR_SUCCESS;
}

static void begin_flat(tsr_array_writer *self, const tsr_tensor *array, stream *to) {
    to->next = 0;
    to->end = self->size_bytes = array_size(array);
}

/* Reserves space for everything except the directory of a zip. */
static tsr_result reserve(tsr_ctx *ctx, const tsr_array_writer *self) {
    uint64_t end = 0;
    if (self->format->kind == FORMAT_STREAM) return TSR_SUCCESS;
    for (size_t i = 0; i < self->count; i++)
        if (self->streams[i].end > end) end = self->streams[i].end;
    return tsr_io_atomic_reserve(ctx, &self->file, end);
}

static tsr_result choose_format(tsr_ctx *ctx, tsr_array_writer *self, const tsr_tensor *arrays) {
    const char *slash = strrchr(self->path, '/'), *name = slash ? slash + 1 : self->path;
    const char *dot = strrchr(name, '.');
    self->format = strcmp(self->path, TSR_ARRAY_STREAM) == 0
                       ? &stream_format
                       : formats; /* format of a name without an extension */
    for (size_t i = 0; dot && dot != name && i < TSR_COUNT(formats); i++) {
        if (strcmp(dot, formats[i].suffix) != 0) continue;
        self->format = &formats[i];
        dot = NULL;
    }
    if (dot && dot != name)
        FAIL(
            ctx, TSR_USAGE,
            "'%s' has the format '%s', which cannot be written; expected .npy, .npz, .safetensors, "
            ".bin (elements alone) or .txt (text)",
            self->path, dot);
    if (self->count != 1 && !self->format->holds_several)
        FAIL(ctx, TSR_USAGE,
             "'%s' and '%s' both go to '%s'; expected one array, or a file that ends in .npz or "
             ".safetensors",
             arrays[0].name, arrays[1].name, self->path);
    if (self->format->kind == FORMAT_TEXT && tsr_dtype_size(arrays[0].dtype) != 1)
        FAIL(ctx, TSR_USAGE,
             "'%s' is %s, and '%s' would hold text, whose elements are bytes; expected .bin for "
             "its elements alone, .npy, .npz or .safetensors",
             arrays[0].name, tsr_dtype_name(arrays[0].dtype), self->path);
    return TSR_SUCCESS;
}

static tsr_result begin(tsr_ctx *ctx, tsr_array_writer *self, const tsr_tensor *arrays) {
    TRY(ctx, choose_format(ctx, self, arrays));
    TRY(ctx, check_size(ctx, self, arrays));
    if (self->format->kind != FORMAT_STREAM)
        TRY(ctx, tsr_io_atomic_open(ctx, self->path, &self->arena, &self->file));
    switch (self->format->kind) {
    case FORMAT_STREAM:
    case FORMAT_NPY:
        return begin_npy(ctx, self, &arrays[0], &self->streams[0]);
    case FORMAT_NPZ:
        for (size_t i = 0; i < self->count; i++)
            TRY(ctx, begin_member(ctx, self, &arrays[i], &self->streams[i]));
        return TSR_SUCCESS;
    case FORMAT_SAFETENSORS:
        return begin_safetensors(ctx, self, arrays);
    case FORMAT_FLAT:
    case FORMAT_TEXT:
        begin_flat(self, &arrays[0], &self->streams[0]);
        return TSR_SUCCESS;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_array_writer_create(tsr_ctx *ctx, const char *path, const tsr_tensor *arrays,
                                   size_t array_count, tsr_array_writer **out_writer) {
    TSR_ASSERT(array_count);
    tsr_array_writer *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", path);
    tsr_result result = TSR_SUCCESS;
    self->count = array_count;
    self->path = tsr_arena_strdup(&self->arena, path);
    self->streams = TSR_NEW(&self->arena, stream, array_count);
    if (!self->path || !self->streams)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to write '%s'", path);
    TRY_GOTO(ctx, result, begin(ctx, self, arrays));
    TRY_GOTO(ctx, result, reserve(ctx, self));
    *out_writer = self;
    self = NULL;
done:
    tsr_array_writer_destroy(ctx, self);
    return result;
}

tsr_result tsr_array_writer_append(tsr_ctx *ctx, tsr_array_writer *writer, size_t array,
                                   const void *elements, size_t size_bytes) {
    TSR_ASSERT(array < writer->count);
    stream *to = &writer->streams[array];
    TSR_ASSERT(size_bytes <= to->end - to->next);
    if (!size_bytes) return TSR_SUCCESS;
    TRY(ctx, write_bytes(ctx, writer, elements, size_bytes, to->next));
    if (writer->format->kind == FORMAT_NPZ)
        to->crc = (uint32_t)crc32_z(to->crc, elements, size_bytes);
    to->next += size_bytes;
    return TSR_SUCCESS;
}

/* ---- zip ---- */

static void put16(tsr_buffer *out, unsigned value) {
    const unsigned char bytes[2] = {(unsigned char)(value & 0xFF), (unsigned char)(value >> 8)};
    tsr_buffer_append(out, bytes, sizeof bytes);
}

/* The fields from the version to the length of the name, which are equal in both headers. */
static void put_common(tsr_buffer *out, const stream *from) {
    put16(out, VERSION_ZIP64);
    put16(out, FLAG_UTF8);
    put16(out, 0); /* stored */
    put16(out, 0); /* time */
    put16(out, DATE_NONE);
    tsr_buffer_u32(out, from->crc);
    tsr_buffer_u32(out, UINT32_MAX); /* sizes: in the extra field */
    tsr_buffer_u32(out, UINT32_MAX);
    put16(out, (unsigned)strlen(from->member));
}

static void put_sizes(tsr_buffer *out, const stream *from, unsigned extra_bytes) {
    put16(out, EXTRA_ZIP64);
    put16(out, extra_bytes - 4);
    tsr_buffer_u64(out, from->end - from->begin);
    tsr_buffer_u64(out, from->end - from->begin);
}

static void put_local(tsr_buffer *out, const stream *from) {
    tsr_buffer_append(out, "PK\3\4", 4);
    put_common(out, from);
    put16(out, LOCAL_EXTRA_BYTES);
    tsr_buffer_text(out, from->member);
    put_sizes(out, from, LOCAL_EXTRA_BYTES);
}

static void put_entry(tsr_buffer *out, const stream *from) {
    tsr_buffer_append(out, "PK\1\2", 4);
    put16(out, MADE_ON_UNIX | VERSION_ZIP64);
    put_common(out, from);
    put16(out, ENTRY_EXTRA_BYTES);
    put16(out, 0); /* comment */
    put16(out, 0); /* disk */
    put16(out, 0);
    tsr_buffer_u32(out, (uint32_t)MODE_PLAIN_FILE << 16);
    tsr_buffer_u32(out, UINT32_MAX); /* offset: in the extra field */
    tsr_buffer_text(out, from->member);
    put_sizes(out, from, ENTRY_EXTRA_BYTES);
    tsr_buffer_u64(out, from->local);
}

static void put_end(tsr_buffer *out, const tsr_array_writer *self) {
    uint64_t directory_bytes = out->size_bytes;
    tsr_buffer_append(out, "PK\6\6", 4);
    tsr_buffer_u64(out, END64_BYTES - 12);
    put16(out, MADE_ON_UNIX | VERSION_ZIP64);
    put16(out, VERSION_ZIP64);
    tsr_buffer_u64(out, 0); /* disks */
    tsr_buffer_u64(out, self->count);
    tsr_buffer_u64(out, self->count);
    tsr_buffer_u64(out, directory_bytes);
    tsr_buffer_u64(out, self->size_bytes);
    tsr_buffer_append(out, "PK\6\7", 4);
    tsr_buffer_u32(out, 0);
    tsr_buffer_u64(out, self->size_bytes + directory_bytes);
    tsr_buffer_u32(out, 1);
    tsr_buffer_append(out, "PK\5\6\0\0\0\0", 8);
    tsr_buffer_u64(out, UINT64_MAX); /* counts and size: in the zip64 record */
    tsr_buffer_u32(out, UINT32_MAX);
    put16(out, 0);
}

static tsr_result write_buffer(tsr_ctx *ctx, const tsr_array_writer *self, tsr_buffer *buffer,
                               uint64_t offset) {
    if (buffer->failed) FAIL(ctx, TSR_MEMORY, "no memory to write '%s'", self->path);
    TRY(ctx, tsr_io_write_all(ctx, self->file.fd, self->path, buffer->bytes, buffer->size_bytes,
                              offset));
    buffer->size_bytes = 0;
    return TSR_SUCCESS;
}

static tsr_result finish_zip(tsr_ctx *ctx, const tsr_array_writer *self) {
    tsr_result result = TSR_SUCCESS;
    tsr_buffer out = {0};
    for (size_t i = 0; i < self->count; i++) {
        put_local(&out, &self->streams[i]);
        TRY_GOTO(ctx, result, write_buffer(ctx, self, &out, self->streams[i].local));
    }
    for (size_t i = 0; i < self->count; i++) put_entry(&out, &self->streams[i]);
    put_end(&out, self);
    TRY_GOTO(ctx, result, write_buffer(ctx, self, &out, self->size_bytes));
done:
    tsr_buffer_finish(&out);
    return result;
}

tsr_result tsr_array_writer_commit(tsr_ctx *ctx, tsr_array_writer *writer) {
    for (size_t i = 0; i < writer->count; i++)
        TSR_ASSERT(writer->streams[i].next == writer->streams[i].end);
    if (writer->format->kind == FORMAT_STREAM) return send_header(ctx, writer);
    if (writer->format->kind == FORMAT_NPZ) TRY(ctx, finish_zip(ctx, writer));
    return tsr_io_atomic_commit(ctx, &writer->file);
}

void tsr_array_writer_destroy(tsr_ctx *ctx, tsr_array_writer *writer) {
    if (!writer) return;
    tsr_io_atomic_abandon(ctx, &writer->file);
    tsr_arena_finish(&writer->arena);
    free(writer);
}

int tsr_array_writer_get_fd(const tsr_array_writer *writer) {
    return writer->format->kind == FORMAT_STREAM ? STDOUT_FILENO : writer->file.fd;
}
