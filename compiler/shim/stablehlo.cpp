// SPDX-License-Identifier: Apache-2.0
//
// Dialects `stablehlo`, `chlo`, `mhlo` and `sdy` for reading: no op is declared. MLIR reads the
// generic form of their ops; one loose grammar reads what all their custom forms have in common. It
// keeps the names that a form uses, and puts words that have none in the list `words`. The importer
// (compiler/frontend/stablehlo/) knows what they mean.
#include "compiler/shim/shim.h"

#include <mlir/CAPI/IR.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/DialectImplementation.h>
#include <mlir/IR/OpImplementation.h>

namespace {
using Operand = mlir::OpAsmParser::UnresolvedOperand;
constexpr llvm::StringLiteral names[] = {"stablehlo", "chlo", "mhlo", "sdy"};

mlir::ParseResult parseValue(mlir::AsmParser &parser, mlir::Attribute &value);

// key = value, …, to the end mark.
mlir::ParseResult parseMembers(mlir::AsmParser &parser, mlir::Attribute &value,
                               mlir::AsmParser::Delimiter delimiter) {
    mlir::NamedAttrList members;
    auto parseMember = [&]() -> mlir::ParseResult {
        llvm::StringRef key;
        mlir::Attribute member;
        if (parser.parseKeyword(&key) || parser.parseEqual() || parseValue(parser, member))
            return mlir::failure();
        members.set(key, member);
        return mlir::success();
    };
    if (parser.parseCommaSeparatedList(delimiter, parseMember)) return mlir::failure();
    value = members.getDictionary(parser.getContext());
    return mlir::success();
}

mlir::ParseResult parseList(mlir::AsmParser &parser, mlir::Attribute &value) {
    llvm::SmallVector<mlir::Attribute> items;
    auto parseItem = [&] { return parseValue(parser, items.emplace_back()); };
    if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, parseItem))
        return mlir::failure();
    value = parser.getBuilder().getArrayAttr(items);
    return mlir::success();
}

// A list, or lists that `x` and `->` separate: [1] x [0]; [b, 0, f]x[0, i, o]->[b, 0, f].
mlir::ParseResult parseLists(mlir::AsmParser &parser, mlir::Attribute &value) {
    llvm::SmallVector<mlir::Attribute> lists(1);
    if (parseList(parser, lists[0])) return mlir::failure();
    while (mlir::succeeded(parser.parseOptionalKeyword("x")) ||
           mlir::succeeded(parser.parseOptionalArrow()))
        if (parseList(parser, lists.emplace_back())) return mlir::failure();
    value = lists.size() == 1 ? lists[0] : parser.getBuilder().getArrayAttr(lists);
    return mlir::success();
}

// Anything that follows an `=`.
mlir::ParseResult parseValue(mlir::AsmParser &parser, mlir::Attribute &value) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    char first = *loc.getPointer();
    if (first == '[') return parseLists(parser, value);
    if (first == '{') return parseMembers(parser, value, mlir::AsmParser::Delimiter::Braces);
    if (first == '<') return parseMembers(parser, value, mlir::AsmParser::Delimiter::LessGreater);
    llvm::StringRef word;
    int64_t number;
    // The types of the op may follow a number, which is no attribute `1 : type`.
    mlir::OptionalParseResult integer = parser.parseOptionalInteger(number);
    if (integer.has_value()) {
        value = parser.getBuilder().getI64IntegerAttr(number);
        return *integer;
    }
    // A word may also begin an attribute of MLIR's own, such as `array<i64: 1>`.
    mlir::OptionalParseResult parsed = parser.parseOptionalAttribute(value, mlir::Type());
    if (parsed.has_value()) return *parsed;
    if (parser.parseKeyword(&word)) return mlir::failure();
    value = parser.getBuilder().getStringAttr(word);
    return mlir::success();
}

// What stands between the name of an op and its types.
struct Form {
    llvm::SmallVector<Operand> operands, inits;
    llvm::SmallVector<mlir::OpAsmParser::Argument> arguments; // of the regions of a loop
    llvm::SmallVector<mlir::Attribute> words;
    mlir::NamedAttrList attributes;
};

// NAME = value, or a word.
mlir::ParseResult parseNamed(mlir::OpAsmParser &parser, llvm::StringRef name, Form &form) {
    mlir::Attribute value;
    if (mlir::failed(parser.parseOptionalEqual())) {
        form.words.push_back(parser.getBuilder().getStringAttr(name));
        return mlir::success();
    }
    if (parseValue(parser, value)) return mlir::failure();
    form.attributes.set(name, value);
    return mlir::success();
}

// An operand, with the one that starts it: `%x = %y` in a loop, `%x init: %y` in a reduction.
mlir::ParseResult parseOperand(mlir::OpAsmParser &parser, const Operand &operand, Form &form) {
    if (mlir::succeeded(parser.parseOptionalEqual())) {
        form.arguments.emplace_back().ssaName = operand;
        return parser.parseOperand(form.operands.emplace_back());
    }
    form.operands.push_back(operand);
    if (mlir::failed(parser.parseOptionalKeyword("init"))) return mlir::success();
    return mlir::failure(parser.parseColon() || parser.parseOperand(form.inits.emplace_back()));
}

mlir::ParseResult parseItem(mlir::OpAsmParser &parser, Form &form) {
    Operand operand;
    llvm::StringRef word;
    mlir::OptionalParseResult parsed = parser.parseOptionalOperand(operand);
    if (parsed.has_value()) return mlir::failure(*parsed || parseOperand(parser, operand, form));
    if (parser.parseKeyword(&word)) return mlir::failure();
    return parseNamed(parser, word, form);
}

// [0:4, 1:9:2]
mlir::ParseResult parseSlices(mlir::OpAsmParser &parser, Form &form) {
    llvm::SmallVector<int64_t> numbers[3];
    auto parseSlice = [&]() -> mlir::ParseResult {
        int64_t stride = 1;
        if (parser.parseInteger(numbers[0].emplace_back()) || parser.parseColon() ||
            parser.parseInteger(numbers[1].emplace_back()))
            return mlir::failure();
        if (mlir::succeeded(parser.parseOptionalColon()) && parser.parseInteger(stride))
            return mlir::failure();
        numbers[2].push_back(stride);
        return mlir::success();
    };
    if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, parseSlice))
        return mlir::failure();
    const char *keys[] = {"start_indices", "limit_indices", "strides"};
    for (size_t i = 0; i < 3; i++)
        form.attributes.set(keys[i], parser.getBuilder().getDenseI64ArrayAttr(numbers[i]));
    return mlir::success();
}

// Everything up to the colon before the types. False at that colon, or at the end of the op.
mlir::FailureOr<bool> parsePart(mlir::OpAsmParser &parser, Form &form) {
    mlir::StringAttr symbol;
    std::string text;
    char first = *parser.getCurrentLocation().getPointer();
    mlir::ParseResult parsed = mlir::success();
    if (first == '(')
        parsed = parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Paren,
                                                [&] { return parseItem(parser, form); });
    else if (first == '[')
        parsed = parseSlices(parser, form);
    else if (first == '{')
        parsed = parser.parseOptionalAttrDict(form.attributes);
    else if (mlir::succeeded(parser.parseOptionalComma()))
        return true;
    else if (mlir::succeeded(parser.parseOptionalSymbolName(symbol)))
        form.attributes.set("call_target_name", symbol);
    else if (mlir::succeeded(parser.parseOptionalString(&text)))
        form.attributes.set("name", parser.getBuilder().getStringAttr(text));
    else if (first == '%' || (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z'))
        parsed = parseItem(parser, form);
    else
        return false;
    if (mlir::failed(parsed)) return mlir::failure();
    return true;
}

// The importer refuses more, too (TSR_HLO_VALUES_MAX).
constexpr size_t resultsMax = 512;

// One type for everything; the types of the operands; `(types) -> types`, also without parentheses.
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser, size_t operands,
                             llvm::SmallVectorImpl<mlir::Type> &inputs,
                             llvm::SmallVectorImpl<mlir::Type> &results) {
    if (*parser.getCurrentLocation().getPointer() == '(') {
        mlir::FunctionType type;
        if (parser.parseType(type)) return mlir::failure();
        inputs.append(type.getInputs().begin(), type.getInputs().end());
        results.append(type.getResults().begin(), type.getResults().end());
        return mlir::success();
    }
    if (parser.parseTypeList(inputs)) return mlir::failure();
    if (mlir::succeeded(parser.parseOptionalArrow())) {
        if (*parser.getCurrentLocation().getPointer() != '(')
            return parser.parseType(results.emplace_back());
        return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Paren, [&] {
            return parser.parseType(results.emplace_back());
        });
    }
    size_t wanted = parser.getNumResults();
    if (wanted > resultsMax) // before a type is stored for each
        return parser.emitError(parser.getCurrentLocation(), "the op has ")
               << wanted << " results; at most " << resultsMax << " can be imported";
    if (inputs.size() == 2 && operands == 3) inputs.push_back(inputs[1]); // select
    if (wanted == inputs.size() && operands == wanted)
        results = inputs;
    else
        results.assign(wanted, inputs.back());
    if (inputs.size() == 1) inputs.assign(operands, mlir::Type(inputs[0]));
    return mlir::success();
}

mlir::ParseResult parseLoop(mlir::OpAsmParser &parser, Form &form, llvm::ArrayRef<mlir::Type> types,
                            mlir::OperationState &state) {
    if (types.size() != form.arguments.size())
        return parser.emitError(parser.getCurrentLocation(), "expected a type for each operand");
    for (size_t i = 0; i < types.size(); i++) form.arguments[i].type = types[i];
    if (parser.parseOptionalAttrDictWithKeyword(form.attributes) || parser.parseKeyword("cond") ||
        parser.parseRegion(*state.addRegion(), form.arguments) || parser.parseKeyword("do") ||
        parser.parseRegion(*state.addRegion(), form.arguments))
        return mlir::failure();
    return mlir::success();
}

// reducer(%a: t, %b: t) (%c: u, %d: u) {…}: the block has all first arguments, then all second.
mlir::ParseResult parseReducer(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    llvm::SmallVector<mlir::OpAsmParser::Argument> first, second, pair;
    while (*parser.getCurrentLocation().getPointer() == '(') {
        pair.clear();
        if (parser.parseArgumentList(pair, mlir::AsmParser::Delimiter::Paren, true))
            return mlir::failure();
        if (pair.size() != 2)
            return parser.emitError(parser.getCurrentLocation(), "expected pairs of arguments");
        first.push_back(pair[0]);
        second.push_back(pair[1]);
    }
    first.append(second);
    return parser.parseRegion(*state.addRegion(), first);
}

mlir::ParseResult parseOp(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    Form form;
    llvm::SmallVector<mlir::Type> inputs, results;
    llvm::SMLoc loc = parser.getCurrentLocation();
    bool constant = state.name.getStringRef().ends_with(".constant");
    for (mlir::FailureOr<bool> more = true; *more;) {
        if (constant && *parser.getCurrentLocation().getPointer() != '{') break;
        more = parsePart(parser, form);
        if (mlir::failed(more)) return mlir::failure();
    }
    if (constant) {
        mlir::TypedAttr value;
        if (parser.parseAttribute(value)) return mlir::failure();
        form.attributes.set("value", value);
        results.push_back(value.getType());
    } else if (mlir::succeeded(parser.parseOptionalColon())) {
        if (parseTypes(parser, form.operands.size() + form.inits.size(), inputs, results))
            return mlir::failure();
    }
    form.operands.append(form.inits);
    if (!form.words.empty())
        form.attributes.set("words", parser.getBuilder().getArrayAttr(form.words));
    if (!form.arguments.empty() && parseLoop(parser, form, inputs, state)) return mlir::failure();
    if (mlir::succeeded(parser.parseOptionalKeyword("reducer")) && parseReducer(parser, state))
        return mlir::failure();
    state.addAttributes(form.attributes.getAttrs());
    state.addTypes(results);
    return parser.resolveOperands(form.operands, inputs, loc, state.operands);
}

// #stablehlo.gather<offset_dims = [1], …>, #stablehlo<precision DEFAULT>; others stay text.
mlir::Attribute parseAttr(mlir::DialectAsmParser &parser) {
    llvm::StringRef kind, word;
    mlir::Attribute value;
    if (parser.parseKeyword(&kind)) return {};
    if (*parser.getCurrentLocation().getPointer() != '<') {
        bool named = mlir::succeeded(parser.parseOptionalKeyword(&word));
        return parser.getBuilder().getStringAttr(named ? word : kind);
    }
    if (parser.getCurrentLocation().getPointer()[1] != '[')
        return mlir::failed(parseValue(parser, value)) ? mlir::Attribute() : value;
    if (parser.parseLess() || parseValue(parser, value) || parser.parseGreater()) return {};
    return value;
}

template <int N> class Loose : public mlir::Dialect {
  public:
    explicit Loose(mlir::MLIRContext *context)
        : Dialect(names[N], context, mlir::TypeID::get<Loose<N>>()) {
        allowUnknownOperations();
        allowUnknownTypes();
    }
    static constexpr llvm::StringLiteral getDialectNamespace() { return names[N]; }
    std::optional<ParseOpHook> getParseOperationHook(llvm::StringRef) const override {
        return ParseOpHook(parseOp);
    }
    mlir::Attribute parseAttribute(mlir::DialectAsmParser &parser, mlir::Type) const override {
        if (N < 3) return parseAttr(parser);
        return mlir::StringAttr::get(parser.getContext(), parser.getFullSymbolSpec());
    }
    void printAttribute(mlir::Attribute, mlir::DialectAsmPrinter &) const override {}
};
} // namespace

void tsr_shim_load_stablehlo(MlirContext context) {
    unwrap(context)->loadDialect<Loose<0>, Loose<1>, Loose<2>, Loose<3>>();
}
