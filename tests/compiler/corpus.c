/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/corpus.h"

#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool corpus_read_file(const char *path, tsr_buffer *out) {
    char chunk[1 << 16];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) tsr_buffer_append(out, chunk, got);
    fclose(file);
    return true;
}

static bool use_file(const char *path, corpus_use *use, void *user) {
    static const char divider[] = "// -----";
    tsr_buffer text = {0};
    if (!corpus_read_file(path, &text)) return false;
    for (char *part = text.bytes; part;) {
        char *stop = strstr(part, divider);
        if (stop) *stop = '\0';
        use(path, part, strlen(part), user);
        part = stop ? stop + strlen(divider) : NULL;
    }
    tsr_buffer_finish(&text);
    return true;
}

/* The modules of a page: its blocks of MLIR. */
static bool use_page(const char *path, corpus_use *use, void *user) {
    static const char begin[] = "```mlir\n", end[] = "\n```";
    tsr_buffer text = {0};
    if (!corpus_read_file(path, &text)) return false;
    for (char *part = text.bytes; part && (part = strstr(part, begin)) != NULL;) {
        part += strlen(begin);
        char *stop = strstr(part, end);
        if (!stop) break;
        *stop = '\0';
        use(path, part, strlen(part), user);
        part = stop + strlen(end);
    }
    tsr_buffer_finish(&text);
    return true;
}

static bool ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length >= size && strcmp(name + length - size, ending) == 0;
}

static bool use_item(const char *folder, const struct dirent *item, corpus_use *use, void *user) {
    bool is_folder = item->d_type == DT_DIR, is_page = ends_with(item->d_name, ".md"), done = true;
    char *path = NULL;
    if (item->d_name[0] == '.' || (!is_folder && !is_page && !ends_with(item->d_name, ".mlir")))
        return true;
    if (asprintf(&path, "%s/%s", folder, item->d_name) < 0) return false;
    done = is_folder ? corpus_each(path, use, user)
           : is_page ? use_page(path, use, user)
                     : use_file(path, use, user);
    free(path);
    return done;
}

bool corpus_each(const char *folder, corpus_use *use, void *user) {
    struct dirent **items;
    int count = scandir(folder, &items, NULL, alphasort);
    bool done = count >= 0;
    for (int i = 0; i < count; i++) {
        done = use_item(folder, items[i], use, user) && done;
        free(items[i]);
    }
    if (count >= 0) free(items);
    return done;
}

typedef struct name_list {
    const char **names;
    size_t count, max;
} name_list;

static void add_name(MlirStringRef name, void *user) {
    static const char *const dialects[] = {"tessera.", "tessera_sr.", "tessera_target.", "tile.",
                                           "tsched."};
    name_list *list = user;
    for (size_t i = 0; i < TSR_COUNT(dialects); i++) {
        if (strncmp(name.data, dialects[i], strlen(dialects[i])) != 0) continue;
        if (list->count < list->max) list->names[list->count] = name.data;
        list->count++;
    }
}

size_t corpus_op_names(MlirContext context, const char **names, size_t max) {
    name_list list = {.names = names, .max = max};
    tsr_shim_op_names(context, add_name, &list);
    return list.count;
}
