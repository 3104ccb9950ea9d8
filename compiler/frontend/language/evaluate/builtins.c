/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and methods of Python: the rows of builtins.def.
 */
#include "compiler/frontend/language/evaluate/evaluate.h"
#include "compiler/frontend/language/syntax/limits.h"
#include "runtime/base/array.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tsr_value wrong_type(tsr_evaluator *e, const tsr_call *call, size_t index) {
    return tsr_evaluate_fail(e, call->args[index].span, TSR_DIAG_EVALUATE_TYPE,
                             "%s() does not take %s", call->callee,
                             tsr_value_type_name(call->args[index].value));
}

/* Between `low` and `high` arguments, none with a name. */
static bool check_count(tsr_evaluator *e, const tsr_call *call, size_t low, size_t high) {
    for (size_t i = 0; i < call->count; i++)
        if (call->args[i].name) {
            tsr_evaluate_fail(e, call->args[i].span, TSR_DIAG_EVALUATE_CALL,
                              "%s() has no parameter '%s'", call->callee, call->args[i].name);
            return false;
        }
    if (call->count >= low && call->count <= high) return true;
    tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                      "%s() has %zu arguments; expected at least %zu and at most %zu", call->callee,
                      call->count, low, high);
    return false;
}

static bool read_integer(tsr_evaluator *e, const tsr_call *call, size_t index, int64_t *out) {
    if (tsr_value_as_integer(call->args[index].value, out)) return true;
    wrong_type(e, call, index);
    return false;
}

static tsr_value make_list(tsr_evaluator *e, tsr_value_kind kind, const tsr_value *items,
                           size_t count) {
    tsr_value list = tsr_value_list(e->arena, kind, count);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < count; i++) list.list->items[i] = items[i];
    list.list->count = count;
    return list;
}

static tsr_value make_pair(tsr_evaluator *e, tsr_value a, tsr_value b) {
    return make_list(e, TSR_VALUE_TUPLE, (const tsr_value[]){a, b}, 2);
}

static tsr_value make_text(tsr_evaluator *e, tsr_buffer *text, const tsr_call *call) {
    tsr_value v = TSR_POISON;
    if (tsr_evaluate_charge(e, text->size_bytes / 16, call->span)) {
        v = text->failed ? TSR_POISON : tsr_value_text(e->arena, text->bytes, text->size_bytes);
        if (!v.kind) tsr_evaluate_no_memory(e);
    }
    tsr_buffer_finish(text);
    return v;
}

/* ---- conversions ---- */

static tsr_value run_bool(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    bool truth = false;
    (void)self;
    if (!check_count(e, call, 0, 1)) return TSR_POISON;
    if (call->count && !tsr_evaluate_truth(e, call->args[0].value, call->args[0].span, &truth))
        return TSR_POISON;
    return tsr_value_bool(truth);
}

/* The text without blanks and single underscores between digits; false if it is not a number. */
static bool clean(const tsr_ast_text *text, char out[400]) {
    size_t begin = 0, end = text->size_bytes, count = 0;
    while (begin < end && isspace((unsigned char)text->bytes[begin])) begin++;
    while (end > begin && isspace((unsigned char)text->bytes[end - 1])) end--;
    if (end - begin >= 400) return false;
    for (size_t i = begin; i < end; i++) {
        char c = text->bytes[i];
        bool inside = i > begin && i + 1 < end && isdigit((unsigned char)text->bytes[i - 1]) &&
                      isdigit((unsigned char)text->bytes[i + 1]);
        if (!c || (c == '_' && !inside)) return false;
        if (c != '_') out[count++] = c;
    }
    out[count] = 0;
    return count > 0;
}

static bool parse_integer(const tsr_ast_text *text, int64_t *out) {
    char digits[400];
    if (!clean(text, digits)) return false;
    size_t sign = digits[0] == '-' || digits[0] == '+';
    if (!isdigit((unsigned char)digits[sign]) || digits[sign + strspn(digits + sign, "0123456789")])
        return false;
    errno = 0;
    *out = strtoll(digits, NULL, 10);
    return errno == 0;
}

/* Python's float has no hexadecimal form, and "inf", "infinity" and "nan" in any case. */
static bool parse_real(const tsr_ast_text *text, double *out) {
    char digits[400], *end;
    if (!clean(text, digits) || strpbrk(digits, "xX(")) return false;
    *out = strtod(digits, &end);
    return !*end;
}

static tsr_value refuse_text(tsr_evaluator *e, const tsr_call *call) {
    tsr_buffer shown = {0};
    tsr_value_repr(call->args[0].value, &shown);
    tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_VALUE,
                      "%.80s is not a number that %s() can hold", shown.bytes ? shown.bytes : "?",
                      call->callee);
    tsr_buffer_finish(&shown);
    return TSR_POISON;
}

static tsr_value run_int(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    int64_t integer = 0;
    (void)self;
    if (!check_count(e, call, 0, 1)) return TSR_POISON;
    if (!call->count) return tsr_value_integer(0);
    tsr_value v = call->args[0].value;
    if (tsr_value_is_text(v))
        return parse_integer(v.text, &integer) ? tsr_value_integer(integer) : refuse_text(e, call);
    if (v.kind == TSR_VALUE_FLOAT) {
        double whole = trunc(v.real);
        if (whole >= -0x1p63 && whole < 0x1p63) return tsr_value_integer((int64_t)whole);
        return tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_VALUE,
                                 "the float %g does not fit an int of 64 bits", v.real);
    }
    return read_integer(e, call, 0, &integer) ? tsr_value_integer(integer) : TSR_POISON;
}

static tsr_value run_float(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    double real = 0;
    (void)self;
    if (!check_count(e, call, 0, 1)) return TSR_POISON;
    if (!call->count) return tsr_value_real(0);
    tsr_value v = call->args[0].value;
    if (tsr_value_is_text(v))
        return parse_real(v.text, &real) ? tsr_value_real(real) : refuse_text(e, call);
    return tsr_value_as_real(v, &real) ? tsr_value_real(real) : wrong_type(e, call, 0);
}

static tsr_value run_str(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_buffer text = {0};
    (void)self;
    if (!check_count(e, call, 0, 1)) return TSR_POISON;
    if (call->count &&
        !tsr_evaluate_format(e, call->args[0].value, -1, NULL, call->args[0].span, &text)) {
        tsr_buffer_finish(&text);
        return TSR_POISON;
    }
    return make_text(e, &text, call);
}

static tsr_value convert_items(tsr_evaluator *e, const tsr_call *call, tsr_value_kind kind) {
    size_t count = 0;
    if (!check_count(e, call, 0, 1)) return TSR_POISON;
    if (!call->count) return make_list(e, kind, NULL, 0);
    const tsr_value *items = tsr_evaluate_items(e, call->args[0].value, call->args[0].span, &count);
    return items ? make_list(e, kind, items, count) : TSR_POISON;
}

static tsr_value run_list(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return convert_items(e, call, TSR_VALUE_LIST);
}

static tsr_value run_tuple(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return convert_items(e, call, TSR_VALUE_TUPLE);
}

static bool set_key(tsr_evaluator *e, tsr_dict *dict, tsr_value key, tsr_value value,
                    tsr_span span) {
    uint64_t hash;
    if (!tsr_evaluate_measure(e, key, span)) return false;
    if (!tsr_value_hash(key, &hash)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "%s cannot be a key of a dict",
                          tsr_value_type_name(key));
        return false;
    }
    if (tsr_dict_set(e->arena, dict, key, hash, value)) return true;
    tsr_evaluate_no_memory(e);
    return false;
}

/* Adds the entries of a dict, or of pairs, and the arguments with names. */
static bool update(tsr_evaluator *e, tsr_dict *dict, const tsr_call *call) {
    size_t first = call->count && !call->args[0].name, count = 0, two;
    if (first) {
        tsr_value from = call->args[0].value;
        tsr_span span = call->args[0].span;
        const tsr_value *items = tsr_evaluate_items(e, from, span, &count);
        for (size_t i = 0; items && i < count; i++) {
            bool is_dict = from.kind == TSR_VALUE_DICT;
            const tsr_value *pair = is_dict ? items : tsr_evaluate_items(e, items[i], span, &two);
            if (!pair) return false;
            if (!is_dict && two != 2) return wrong_type(e, call, 0), false;
            tsr_value value = is_dict ? tsr_dict_entry_at(from.dict, i)->value : pair[1];
            if (!set_key(e, dict, is_dict ? items[i] : pair[0], value, span)) return false;
        }
        if (!items) return false;
    }
    for (size_t i = first; i < call->count; i++) {
        const tsr_argument *a = &call->args[i];
        if (!a->name) return check_count(e, call, 0, 1);
        tsr_value key = tsr_value_text(e->arena, a->name, strlen(a->name));
        if (!key.kind) return tsr_evaluate_no_memory(e), false;
        if (!set_key(e, dict, key, a->value, a->span)) return false;
    }
    return true;
}

static tsr_value run_dict(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_value dict = tsr_value_dict(e->arena);
    (void)self;
    if (!dict.kind) return tsr_evaluate_no_memory(e);
    return update(e, dict.dict, call) ? dict : TSR_POISON;
}

/* ---- numbers ---- */

static tsr_value run_abs(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    int64_t integer;
    (void)self;
    if (!check_count(e, call, 1, 1)) return TSR_POISON;
    tsr_value v = call->args[0].value;
    if (v.kind == TSR_VALUE_FLOAT) return tsr_value_real(fabs(v.real));
    if (!read_integer(e, call, 0, &integer)) return TSR_POISON;
    if (integer < 0)
        return tsr_evaluate_unary(e, TSR_OPERATOR_NEGATE, tsr_value_integer(integer), call->span);
    return tsr_value_integer(integer);
}

static tsr_value extremum(tsr_evaluator *e, const tsr_call *call, tsr_operator better) {
    size_t count = call->count;
    tsr_value best = TSR_POISON;
    if (!check_count(e, call, 1, SIZE_MAX)) return TSR_POISON;
    const tsr_value *items =
        count == 1 ? tsr_evaluate_items(e, call->args[0].value, call->args[0].span, &count) : NULL;
    if (call->count == 1 && !items) return TSR_POISON;
    if (!count)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE, "%s() of no values",
                                 call->callee);
    for (size_t i = 0; i < count; i++) {
        tsr_value v = items ? items[i] : call->args[i].value;
        tsr_value is =
            i ? tsr_evaluate_binary(e, better, v, best, call->span) : tsr_value_bool(true);
        if (!is.kind) return TSR_POISON;
        bool truth;
        if (!tsr_evaluate_truth(e, is, call->span, &truth)) return TSR_POISON;
        if (truth) best = v;
    }
    return best;
}

static tsr_value run_min(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return extremum(e, call, TSR_OPERATOR_LESS);
}

static tsr_value run_max(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return extremum(e, call, TSR_OPERATOR_GREATER);
}

static tsr_value run_sum(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t count = 0;
    (void)self;
    if (!check_count(e, call, 1, 2)) return TSR_POISON;
    const tsr_value *items = tsr_evaluate_items(e, call->args[0].value, call->args[0].span, &count);
    if (!items) return TSR_POISON;
    tsr_value sum = call->count == 2 ? call->args[1].value : tsr_value_integer(0);
    if (tsr_value_is_text(sum)) return wrong_type(e, call, 1);
    for (size_t i = 0; i < count && sum.kind; i++)
        sum = tsr_evaluate_binary(e, TSR_OPERATOR_ADD, sum, items[i], call->span);
    return sum;
}

/* ---- sequences ---- */

static tsr_value run_len(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t length;
    (void)self;
    if (!check_count(e, call, 1, 1)) return TSR_POISON;
    tsr_value v = call->args[0].value;
    if (v.kind == TSR_VALUE_OBJECT && v.object->class->length)
        return tsr_value_integer((int64_t)v.object->class->length(v));
    if (!tsr_value_length(v, &length)) return wrong_type(e, call, 0);
    if (length > INT64_MAX)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE,
                                 "the length needs more than 64 bits");
    return tsr_value_integer((int64_t)length);
}

static tsr_value run_range(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    int64_t numbers[3] = {0, 0, 1};
    (void)self;
    if (!check_count(e, call, 1, 3)) return TSR_POISON;
    for (size_t i = 0; i < call->count; i++)
        if (!read_integer(e, call, i, &numbers[call->count == 1 ? 1 : i])) return TSR_POISON;
    if (!numbers[2])
        return tsr_evaluate_fail(e, call->args[2].span, TSR_DIAG_EVALUATE_VALUE,
                                 "the step of a range is 0");
    tsr_value v = tsr_value_range(e->arena, numbers[0], numbers[1], numbers[2]);
    return v.kind ? v : tsr_evaluate_no_memory(e);
}

static tsr_value run_enumerate(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t count = 0;
    int64_t start = 0;
    (void)self;
    tsr_call plain = *call;
    tsr_argument args[2];
    if (call->count == 2 && call->args[1].name && strcmp(call->args[1].name, "start") == 0) {
        args[0] = call->args[0];
        args[1] = call->args[1];
        args[1].name = NULL;
        plain.args = args;
    }
    if (!check_count(e, &plain, 1, 2)) return TSR_POISON;
    if (plain.count == 2 && !read_integer(e, &plain, 1, &start)) return TSR_POISON;
    const tsr_value *items = tsr_evaluate_items(e, plain.args[0].value, plain.args[0].span, &count);
    tsr_value list = items ? tsr_value_list(e->arena, TSR_VALUE_LIST, count) : TSR_POISON;
    for (size_t i = 0; list.kind && i < count; i++) {
        tsr_value at = tsr_evaluate_binary(e, TSR_OPERATOR_ADD, tsr_value_integer(start),
                                           tsr_value_integer((int64_t)i), call->span);
        tsr_value pair = at.kind ? make_pair(e, at, items[i]) : TSR_POISON;
        if (!pair.kind) return TSR_POISON;
        list.list->items[list.list->count++] = pair;
    }
    return list;
}

static tsr_value run_zip(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t shortest = call->count ? SIZE_MAX : 0;
    const tsr_value **columns = TSR_NEW(e->arena, const tsr_value *, call->count + 1);
    (void)self;
    if (!columns) return tsr_evaluate_no_memory(e);
    if (!check_count(e, call, 0, SIZE_MAX)) return TSR_POISON;
    for (size_t i = 0; i < call->count; i++) {
        size_t count = 0;
        columns[i] = tsr_evaluate_items(e, call->args[i].value, call->args[i].span, &count);
        if (!columns[i]) return TSR_POISON;
        if (count < shortest) shortest = count;
    }
    tsr_value list = tsr_value_list(e->arena, TSR_VALUE_LIST, shortest);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < shortest; i++) {
        tsr_value row = tsr_value_list(e->arena, TSR_VALUE_TUPLE, call->count);
        if (!row.kind) return tsr_evaluate_no_memory(e);
        for (size_t k = 0; k < call->count; k++) row.list->items[row.list->count++] = columns[k][i];
        list.list->items[list.list->count++] = row;
    }
    return list;
}

/* ---- methods of lists and tuples ---- */

static tsr_value run_LIST_append(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    if (!check_count(e, call, 1, 1) || !tsr_evaluate_can_change(e, self, call->span))
        return TSR_POISON;
    if (!tsr_list_append(e->arena, self.list, call->args[0].value))
        return tsr_evaluate_no_memory(e);
    return TSR_NONE;
}

static tsr_value run_LIST_extend(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t count = 0;
    if (!check_count(e, call, 1, 1) || !tsr_evaluate_can_change(e, self, call->span))
        return TSR_POISON;
    const tsr_value *items = tsr_evaluate_items(e, call->args[0].value, call->args[0].span, &count);
    for (size_t i = 0; items && i < count; i++)
        if (!tsr_list_append(e->arena, self.list, items[i])) return tsr_evaluate_no_memory(e);
    return items ? TSR_NONE : TSR_POISON;
}

static bool can_compare(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return check_count(e, call, 1, 1) && tsr_evaluate_measure(e, self, call->span) &&
           tsr_evaluate_measure(e, call->args[0].value, call->span);
}

static tsr_value run_LIST_index(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    if (!can_compare(e, self, call)) return TSR_POISON;
    for (size_t i = 0; i < self.list->count; i++)
        if (tsr_value_equal(self.list->items[i], call->args[0].value))
            return tsr_value_integer((int64_t)i);
    return tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_VALUE,
                             "the value is not among the items");
}

static tsr_value run_LIST_count(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    int64_t count = 0;
    if (!can_compare(e, self, call)) return TSR_POISON;
    for (size_t i = 0; i < self.list->count; i++)
        count += tsr_value_equal(self.list->items[i], call->args[0].value);
    return tsr_value_integer(count);
}

static tsr_value run_TUPLE_index(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return run_LIST_index(e, self, call);
}

static tsr_value run_TUPLE_count(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return run_LIST_count(e, self, call);
}

/* ---- methods of dicts ---- */

static bool hash_key(tsr_evaluator *e, const tsr_call *call, uint64_t *out) {
    if (!tsr_evaluate_measure(e, call->args[0].value, call->span)) return false;
    if (tsr_value_hash(call->args[0].value, out)) return true;
    wrong_type(e, call, 0);
    return false;
}

static tsr_value run_DICT_get(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    uint64_t hash;
    if (!check_count(e, call, 1, 2) || !hash_key(e, call, &hash)) return TSR_POISON;
    const tsr_value *found = tsr_dict_find(self.dict, call->args[0].value, hash);
    return found ? *found : call->count == 2 ? call->args[1].value : TSR_NONE;
}

static tsr_value run_DICT_pop(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    uint64_t hash;
    if (!check_count(e, call, 1, 2) || !hash_key(e, call, &hash)) return TSR_POISON;
    const tsr_value *found = tsr_dict_find(self.dict, call->args[0].value, hash);
    if (!found && call->count == 2) return call->args[1].value;
    if (!found)
        return tsr_evaluate_subscript(e, self, call->args[0].value, call->span); /* says so */
    if (!tsr_evaluate_can_change(e, self, call->span)) return TSR_POISON;
    tsr_value v = *found;
    tsr_dict_remove(self.dict, call->args[0].value, hash);
    return v;
}

static tsr_value run_DICT_update(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    if (!tsr_evaluate_can_change(e, self, call->span)) return TSR_POISON;
    return update(e, self.dict, call) ? TSR_NONE : TSR_POISON;
}

typedef enum entry_part { KEYS, VALUES, ITEMS } entry_part;

static tsr_value list_entries(tsr_evaluator *e, tsr_value self, const tsr_call *call,
                              entry_part which) {
    if (!check_count(e, call, 0, 0) || !tsr_evaluate_charge(e, self.dict->live / 8, call->span))
        return TSR_POISON;
    tsr_value list = tsr_value_list(e->arena, TSR_VALUE_LIST, self.dict->live);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < self.dict->live; i++) {
        const tsr_dict_entry *entry = tsr_dict_entry_at(self.dict, i);
        tsr_value item = which == KEYS     ? entry->key
                         : which == VALUES ? entry->value
                                           : make_pair(e, entry->key, entry->value);
        if (which == ITEMS && !item.kind) return TSR_POISON;
        list.list->items[list.list->count++] = item;
    }
    return list;
}

static tsr_value run_DICT_keys(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return list_entries(e, self, call, KEYS);
}

static tsr_value run_DICT_values(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return list_entries(e, self, call, VALUES);
}

static tsr_value run_DICT_items(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return list_entries(e, self, call, ITEMS);
}

/* ---- methods of texts ---- */

static bool check_texts(tsr_evaluator *e, const tsr_call *call, size_t count) {
    if (!check_count(e, call, count, count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!tsr_value_is_text(call->args[i].value)) return wrong_type(e, call, i), false;
    return true;
}

static tsr_value run_TEXT_startswith(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    if (!check_texts(e, call, 1)) return TSR_POISON;
    const tsr_ast_text *part = call->args[0].value.text;
    return tsr_value_bool(part->size_bytes <= self.text->size_bytes &&
                          memcmp(self.text->bytes, part->bytes, part->size_bytes) == 0);
}

static tsr_value run_TEXT_endswith(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    if (!check_texts(e, call, 1)) return TSR_POISON;
    const tsr_ast_text *part = call->args[0].value.text;
    return tsr_value_bool(part->size_bytes <= self.text->size_bytes &&
                          memcmp(self.text->bytes + self.text->size_bytes - part->size_bytes,
                                 part->bytes, part->size_bytes) == 0);
}

static tsr_value change_case(tsr_evaluator *e, tsr_value self, const tsr_call *call,
                             int (*to)(int)) {
    tsr_buffer text = {0};
    if (!check_count(e, call, 0, 0)) return TSR_POISON;
    for (size_t i = 0; i < self.text->size_bytes; i++) {
        unsigned char c = (unsigned char)self.text->bytes[i];
        if (c & 0x80) {
            tsr_buffer_finish(&text);
            return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_VALUE,
                                     "%s() takes texts in ASCII", call->callee);
        }
        tsr_buffer_append(&text, &(char){(char)to(c)}, 1);
    }
    return make_text(e, &text, call);
}

static tsr_value run_TEXT_lower(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return change_case(e, self, call, tolower);
}

static tsr_value run_TEXT_upper(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    return change_case(e, self, call, toupper);
}

static bool is_blank(char c) { return c && strchr(" \t\n\r\f\v\x1c\x1d\x1e\x1f", c); }

static tsr_value run_TEXT_strip(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t begin = 0, end = self.text->size_bytes;
    if (!check_count(e, call, 0, 0)) return TSR_POISON;
    while (begin < end && is_blank(self.text->bytes[begin])) begin++;
    while (end > begin && is_blank(self.text->bytes[end - 1])) end--;
    tsr_value v = tsr_value_text(e->arena, self.text->bytes + begin, end - begin);
    return v.kind ? v : tsr_evaluate_no_memory(e);
}

static tsr_value run_TEXT_join(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    size_t count = 0;
    tsr_buffer text = {0};
    if (!check_count(e, call, 1, 1)) return TSR_POISON;
    const tsr_value *items = tsr_evaluate_items(e, call->args[0].value, call->args[0].span, &count);
    if (!items) return TSR_POISON;
    for (size_t i = 0; i < count; i++) {
        if (!tsr_value_is_text(items[i])) {
            tsr_buffer_finish(&text);
            return tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_TYPE,
                                     "item %zu is %s, not str", i, tsr_value_type_name(items[i]));
        }
        if (text.size_bytes / 16 > TSR_LANGUAGE_STEPS_MAX) break; /* refused below */
        if (i) tsr_buffer_append(&text, self.text->bytes, self.text->size_bytes);
        tsr_buffer_append(&text, items[i].text->bytes, items[i].text->size_bytes);
    }
    return make_text(e, &text, call);
}

/* The next occurrence of a part in a text from `at` on; the end if there is none. */
static size_t find_part(const tsr_ast_text *text, size_t at, const tsr_ast_text *part) {
    const char *found =
        memmem(text->bytes + at, text->size_bytes - at, part->bytes, part->size_bytes);
    return found ? (size_t)(found - text->bytes) : text->size_bytes;
}

static tsr_value run_TEXT_replace(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_buffer text = {0};
    if (!check_texts(e, call, 2)) return TSR_POISON;
    const tsr_ast_text *from = call->args[0].value.text, *to = call->args[1].value.text;
    if (!from->size_bytes)
        return tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_VALUE,
                                 "replace() of an empty text");
    for (size_t at = 0; at < self.text->size_bytes;) {
        size_t next = find_part(self.text, at, from);
        tsr_buffer_append(&text, self.text->bytes + at, next - at);
        if (next < self.text->size_bytes) tsr_buffer_append(&text, to->bytes, to->size_bytes);
        at = next < self.text->size_bytes ? next + from->size_bytes : next;
        if (text.size_bytes / 16 > TSR_LANGUAGE_STEPS_MAX) break; /* refused below */
    }
    return make_text(e, &text, call);
}

static bool append_text(tsr_evaluator *e, tsr_list *list, const char *bytes, size_t size) {
    tsr_value v = tsr_value_text(e->arena, bytes, size);
    if (v.kind && tsr_list_append(e->arena, list, v)) return true;
    tsr_evaluate_no_memory(e);
    return false;
}

static void split_blanks(tsr_evaluator *e, const tsr_ast_text *text, tsr_list *list) {
    for (size_t at = 0; at < text->size_bytes;) {
        size_t end = at;
        while (end < text->size_bytes && !is_blank(text->bytes[end])) end++;
        if (end > at && !append_text(e, list, text->bytes + at, end - at)) return;
        at = end + 1;
    }
}

static tsr_value run_TEXT_split(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    bool blanks = !call->count || call->args[0].value.kind == TSR_VALUE_NONE;
    if (blanks ? !check_count(e, call, 0, 1) : !check_texts(e, call, 1)) return TSR_POISON;
    const tsr_ast_text *by = blanks ? NULL : call->args[0].value.text;
    if (!tsr_evaluate_charge(e, self.text->size_bytes / 4, call->span)) return TSR_POISON;
    if (by && !by->size_bytes)
        return tsr_evaluate_fail(e, call->args[0].span, TSR_DIAG_EVALUATE_VALUE,
                                 "split() at an empty text");
    tsr_value list = tsr_value_list(e->arena, TSR_VALUE_LIST, 4);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    if (!by) split_blanks(e, self.text, list.list);
    for (size_t at = 0; by;) {
        size_t next = find_part(self.text, at, by);
        if (!append_text(e, list.list, self.text->bytes + at, next - at)) break;
        if (next == self.text->size_bytes) break;
        at = next + by->size_bytes;
    }
    return e->stopped ? TSR_POISON : list;
}

/* ---- tables ---- */

static const tsr_builtin functions[] = {
#define FUNCTION(what) {.name = #what, .run = run_##what},
#define METHOD(kind, what)
#include "compiler/frontend/language/evaluate/builtins.def"
#undef FUNCTION
#undef METHOD
};

static const struct {
    tsr_value_kind kind;
    tsr_builtin builtin;
} methods[] = {
#define FUNCTION(what)
#define METHOD(of, method) {TSR_VALUE_##of, {.name = #method, .run = run_##of##_##method}},
#include "compiler/frontend/language/evaluate/builtins.def"
#undef FUNCTION
#undef METHOD
};

tsr_value tsr_builtin_find(tsr_evaluator *e, const char *name) {
    (void)e;
    for (size_t i = 0; i < TSR_COUNT(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            return (tsr_value){.kind = TSR_VALUE_BUILTIN, .builtin = &functions[i]};
    return TSR_POISON;
}

tsr_value tsr_method_find(tsr_evaluator *e, tsr_value self, const char *name) {
    for (size_t i = 0; i < TSR_COUNT(methods); i++) {
        if (methods[i].kind != self.kind || strcmp(methods[i].builtin.name, name) != 0) continue;
        tsr_builtin *bound = TSR_NEW(e->arena, tsr_builtin, 1);
        if (!bound) return tsr_evaluate_no_memory(e);
        *bound = methods[i].builtin;
        bound->self = self;
        return (tsr_value){.kind = TSR_VALUE_BUILTIN, .builtin = bound};
    }
    return TSR_POISON;
}

void tsr_method_names(tsr_value self, void (*offer)(void *to, const char *name), void *to) {
    for (size_t i = 0; i < TSR_COUNT(methods); i++)
        if (methods[i].kind == self.kind) offer(to, methods[i].builtin.name);
}
