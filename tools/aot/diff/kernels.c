/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels are compared as the bytes of their symbols in the code objects. The code objects are
 * verified against their digests, but not trusted: every offset is checked against the file.
 */
#include "runtime/base/plural.h"
#include "tools/aot/diff/diff.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

/* Bytes of one symbol; found is false if the object does not have it, or is not an ELF file of this
 * kind. */
typedef struct code {
    const unsigned char *bytes;
    uint64_t size;
    bool found;
} code;

typedef struct object {
    const unsigned char *bytes;
    size_t size;
    Elf64_Ehdr header;
} object;

static bool read_at(const object *o, uint64_t offset, void *out, size_t size) {
    if (offset > o->size || size > o->size - offset) return false;
    memcpy(out, o->bytes + offset, size);
    return true;
}

static bool object_init(object *o, const void *bytes, size_t size) {
    *o = (object){.bytes = bytes, .size = size};
    return read_at(o, 0, &o->header, sizeof o->header) &&
           memcmp(o->header.e_ident, ELFMAG, SELFMAG) == 0 &&
           o->header.e_ident[EI_CLASS] == ELFCLASS64 && o->header.e_ident[EI_DATA] == ELFDATA2LSB &&
           o->header.e_phentsize == sizeof(Elf64_Phdr) &&
           o->header.e_shentsize == sizeof(Elf64_Shdr);
}

/* Returns the bytes of the file that are loaded at the address. */
static code bytes_at(const object *o, uint64_t address, uint64_t size) {
    for (uint64_t i = 0; i < o->header.e_phnum; i++) {
        Elf64_Phdr part;
        if (!read_at(o, o->header.e_phoff + i * sizeof part, &part, sizeof part)) break;
        if (part.p_type != PT_LOAD || address < part.p_vaddr ||
            address - part.p_vaddr > part.p_filesz ||
            size > part.p_filesz - (address - part.p_vaddr))
            continue;
        uint64_t offset = part.p_offset + (address - part.p_vaddr);
        if (offset < part.p_offset || offset > o->size || size > o->size - offset) break;
        return (code){o->bytes + offset, size, true};
    }
    return (code){0};
}

static bool name_is(const object *o, const Elf64_Shdr *names, uint32_t at, const char *name) {
    size_t length = strlen(name) + 1;
    if (at > names->sh_size || length > names->sh_size - at) return false;
    uint64_t offset = names->sh_offset + at;
    if (offset < at || offset > o->size || length > o->size - offset) return false;
    return memcmp(o->bytes + offset, name, length) == 0;
}

static code find_symbol(const object *o, const char *name) {
    for (uint64_t i = 0; i < o->header.e_shnum; i++) {
        Elf64_Shdr table, names;
        if (!read_at(o, o->header.e_shoff + i * sizeof table, &table, sizeof table)) break;
        if (table.sh_type != SHT_DYNSYM) continue;
        if (!read_at(o, o->header.e_shoff + table.sh_link * sizeof names, &names, sizeof names))
            break;
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            if (!read_at(o, table.sh_offset + at, &symbol, sizeof symbol)) break;
            if (name_is(o, &names, symbol.st_name, name))
                return bytes_at(o, symbol.st_value, symbol.st_size);
        }
    }
    return (code){0};
}

/* ---- one kernel ---- */

static void diff_kernel(diff *d, const char *target, const char *name, code a, code b) {
    uint64_t at = 0, differing = 0, shorter = a.size < b.size ? a.size : b.size;
    if (!a.found || !b.found) {
        if (a.found != b.found)
            diff_note(d, "kernel", target, name, a.found ? DIFF_REMOVED : DIFF_ADDED, NULL,
                      "%" PRIu64 " byte%s", a.found ? a.size : b.size,
                      TSR_PLURAL(a.found ? a.size : b.size));
        return;
    }
    if (a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0) return;
    while (at < shorter && a.bytes[at] == b.bytes[at]) at++;
    for (uint64_t i = at; i < shorter; i++) differing += a.bytes[i] != b.bytes[i];
    if (a.size == b.size)
        diff_note(d, "kernel", target, name, DIFF_CHANGED, NULL,
                  "%" PRIu64 " of %" PRIu64 " byte%s differ, the first at %" PRIu64, differing,
                  a.size, TSR_PLURAL(a.size), at);
    else
        diff_note(d, "kernel", target, name, DIFF_CHANGED, NULL,
                  "%" PRIu64 " byte%s became %" PRIu64 "; the first difference is at byte %" PRIu64,
                  a.size, TSR_PLURAL(a.size), b.size, at);
}

typedef struct half {
    const char *target;
    tsr_program program;
    object code;
    bool has_code;
    tsr_buffer listing; /* owned */
} half;

static tsr_result read_half(diff *d, const diff_side *side, size_t target, half *h) {
    tsr_bundle_layer layer;
    void *bytes = NULL;
    size_t size = 0;
    h->target = tsr_bundle_get_target_name(side->bundle, target);
    if (tsr_bundle_find_layer(side->bundle, target, TSR_MEDIA_PROGRAM, &layer)) {
        TRY(d->ctx, tsr_bundle_read_layer(d->ctx, side->bundle, &layer, &d->arena, &bytes, &size));
        TRY(d->ctx, tsr_program_decode(d->ctx, bytes, size, &side->config, &d->arena, &h->program));
        tsr_program_format(&h->program, &side->config, &h->listing);
    }
    if (tsr_bundle_find_layer(side->bundle, target, TSR_MEDIA_ELF, &layer)) {
        TRY(d->ctx, tsr_bundle_read_layer(d->ctx, side->bundle, &layer, &d->arena, &bytes, &size));
        h->has_code = object_init(&h->code, bytes, size);
    }
    return TSR_SUCCESS;
}

static bool has_kernel(const tsr_program *program, const char *name) {
    for (uint32_t i = 0; i < program->kernel_count; i++)
        if (strcmp(program->kernels[i], name) == 0) return true;
    return false;
}

static void diff_code(diff *d, const half *a, const half *b) {
    for (uint32_t i = 0; i < a->program.kernel_count; i++) {
        const char *name = a->program.kernels[i];
        diff_kernel(d, a->target, name, find_symbol(&a->code, name),
                    has_kernel(&b->program, name) ? find_symbol(&b->code, name) : (code){0});
    }
    for (uint32_t i = 0; i < b->program.kernel_count; i++) {
        const char *name = b->program.kernels[i];
        if (!has_kernel(&a->program, name))
            diff_kernel(d, a->target, name, (code){0}, find_symbol(&b->code, name));
    }
}

/* Prints the first line in which the listings differ. */
static void diff_listing(diff *d, const half *a, const half *b) {
    const char *left = a->listing.bytes ? a->listing.bytes : "";
    const char *right = b->listing.bytes ? b->listing.bytes : "";
    for (unsigned line = 1; *left || *right; line++) {
        size_t left_size = strcspn(left, "\n"), right_size = strcspn(right, "\n");
        if (left_size != right_size || memcmp(left, right, left_size) != 0) {
            diff_note(d, "program", a->target, "listing", DIFF_CHANGED, NULL,
                      "from line %u on: '%.*s' became '%.*s'", line, (int)left_size, left,
                      (int)right_size, right);
            return;
        }
        left += left_size + (left[left_size] == '\n');
        right += right_size + (right[right_size] == '\n');
    }
}

tsr_result diff_kernels(diff *d, size_t target_a, size_t target_b) {
    half a = {0}, b = {0};
    tsr_result result = read_half(d, &d->sides[0], target_a, &a);
    if (!result.code) result = read_half(d, &d->sides[1], target_b, &b);
    if (!result.code) diff_listing(d, &a, &b);
    if (!result.code && a.has_code && b.has_code) diff_code(d, &a, &b);
    d->out.failed |= a.listing.failed || b.listing.failed;
    tsr_buffer_finish(&a.listing);
    tsr_buffer_finish(&b.listing);
    return result;
}
