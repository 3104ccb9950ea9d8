/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/tensorboard.h"

#include "tools/common/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Fields of the messages, with their wire types: number << 3 | type. */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3 | 0,
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5,
};
enum { HEADER_BYTES = 12, TAG_MAX = 512 };
static const char version[] = "brain.Event:2";
static const uint32_t polynomial = 0x82F63B78, mask_delta = 0xA282EAD8;

uint32_t tsr_crc32c(const void *bytes, size_t size_bytes) {
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (polynomial & (0u - (crc & 1u)));
    }
    return ~crc;
}

/* As in TFRecord: so that a CRC of bytes that contain CRCs stays a good one. */
static uint32_t masked(const void *bytes, size_t size_bytes) {
    uint32_t crc = tsr_crc32c(bytes, size_bytes);
    return (crc >> 15 | crc << 17) + mask_delta;
}

/* ---- protocol buffers ---- */

static void put_varint(tsr_buffer *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        tsr_buffer_append(out, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
    tsr_buffer_append(out, &(unsigned char){(unsigned char)value}, 1);
}

static void put_bytes(tsr_buffer *out, unsigned field, const void *bytes, size_t size_bytes) {
    put_varint(out, field);
    put_varint(out, size_bytes);
    if (size_bytes) tsr_buffer_append(out, bytes, size_bytes);
}

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Leaves room for the header of the record. */
static void begin_event(tsr_tensorboard *board) {
    static const char header[HEADER_BYTES];
    double seconds = wall_time();
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    board->record.size_bytes = board->summary.size_bytes = 0;
    tsr_buffer_append(&board->record, header, sizeof header);
    put_varint(&board->record, EVENT_WALL_TIME);
    tsr_buffer_u64(&board->record, bits);
}

/* ---- records ---- */

static void fail(tsr_tensorboard *board, int error) {
    if (!board->error) board->error = error;
    if (board->stop && !*board->stop) *board->stop = TSR_LINES_STOP;
}

static bool write_all(int fd, const char *bytes, size_t size_bytes) {
    while (size_bytes) {
        ssize_t put = write(fd, bytes, size_bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        bytes += put;
        size_bytes -= (size_t)put;
    }
    return true;
}

static void end_event(tsr_tensorboard *board) {
    tsr_buffer *record = &board->record;
    tsr_buffer header = {0};
    if (!record->failed && record->size_bytes) {
        size_t size = record->size_bytes - HEADER_BYTES;
        tsr_buffer_u64(&header, size);
        if (!header.failed) tsr_buffer_u32(&header, masked(header.bytes, 8));
        tsr_buffer_u32(record, masked(record->bytes + HEADER_BYTES, size));
    }
    if (board->error) {
        tsr_buffer_finish(&header);
        return;
    }
    if (record->failed || header.failed || board->summary.failed || board->value.failed) {
        fail(board, ENOMEM);
    } else {
        memcpy(record->bytes, header.bytes, HEADER_BYTES);
        if (write_all(board->fd, record->bytes, record->size_bytes)) {
            board->size_bytes += record->size_bytes;
        } else {
            fail(board, errno);
            if (ftruncate(board->fd, (off_t)board->size_bytes) != 0) errno = 0; /* a torn record */
        }
    }
    tsr_buffer_finish(&header);
}

void tsr_tensorboard_begin(tsr_tensorboard *board, uint64_t step) {
    begin_event(board);
    put_varint(&board->record, EVENT_STEP);
    put_varint(&board->record, step);
}

void tsr_tensorboard_scalar(tsr_tensorboard *board, const char *group, const char *name,
                            double value) {
    char tag[TAG_MAX];
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    int length = snprintf(tag, sizeof tag, "%s/%s", group, name);
    size_t size = length < TAG_MAX ? (size_t)length : TAG_MAX - 1;
    board->value.size_bytes = 0;
    put_bytes(&board->value, VALUE_TAG, tag, size);
    put_varint(&board->value, VALUE_SIMPLE);
    tsr_buffer_u32(&board->value, bits);
    put_bytes(&board->summary, SUMMARY_VALUE, board->value.bytes, board->value.size_bytes);
}

void tsr_tensorboard_end(tsr_tensorboard *board) {
    put_bytes(&board->record, EVENT_SUMMARY, board->summary.bytes, board->summary.size_bytes);
    end_event(board);
}

/* ---- the file ---- */

static TSR_RESULT create(tsr_ctx *ctx, const char *directory, tsr_tensorboard *board) {
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot create the directory '%s'", directory);
    for (unsigned number = 0;; number++) {
        free(board->path);
        board->path = NULL;
        if (asprintf(&board->path, "%s/events.out.tfevents.%010.0f.%s.%d.%u", directory,
                     wall_time(), host[0] ? host : "host", (int)getpid(), number) < 0) {
            board->path = NULL;
            FAIL(ctx, TSR_MEMORY, "no memory for the name of an event file in '%s'", directory);
        }
        board->fd = open(board->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0666);
        if (board->fd >= 0) return TSR_SUCCESS;
        if (errno != EEXIST) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot create '%s'", board->path);
    }
}

tsr_result tsr_tensorboard_open(tsr_ctx *ctx, const char *directory, volatile sig_atomic_t *stop,
                                tsr_tensorboard *out_board) {
    tsr_tensorboard *board = out_board;
    *board = (tsr_tensorboard){.fd = -1, .stop = stop};
    tsr_result result = create(ctx, directory, board);
    if (result.code) {
        free(board->path);
        board->path = NULL;
        return result;
    }
    begin_event(board);
    put_bytes(&board->record, EVENT_FILE_VERSION, version, sizeof version - 1);
    end_event(board);
    return TSR_SUCCESS;
}

tsr_result tsr_tensorboard_close(tsr_ctx *ctx, tsr_tensorboard *board) {
    int error = board->error;
    if (board->fd < 0) return TSR_SUCCESS;
    if (fsync(board->fd) != 0 && !error && errno != EINVAL) error = errno;
    if (close(board->fd) != 0 && !error) error = errno;
    board->fd = -1;
    tsr_result result = TSR_SUCCESS;
    if (error)
        result = tsr_fail_(ctx, TSR_IO, error, __FILE__, __LINE__, "cannot write events to '%s'",
                           board->path);
    tsr_buffer_finish(&board->record);
    tsr_buffer_finish(&board->summary);
    tsr_buffer_finish(&board->value);
    free(board->path);
    board->path = NULL;
    return result;
}
