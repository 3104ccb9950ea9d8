// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tessera`. Each verifier and folder calls C (compiler/graph/ops.c).
#include "compiler/shim/graph.hpp"

#include "compiler/ir/op.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringSwitch.h>

#include <algorithm>
#include <charconv>

namespace tessera {
mlir::FailureOr<mlir::FloatAttr> parseF64(mlir::AsmParser &parser) {
    double value = 0;
    if (parser.parseFloat(value)) return mlir::failure();
    return makeF64(parser.getContext(), value);
}
mlir::FloatAttr makeF64(mlir::MLIRContext *context, double value) {
    return mlir::FloatAttr::get(mlir::Float64Type::get(context), value);
}
// Prints the shortest text that reads back to the same value.
void printF64(mlir::AsmPrinter &printer, mlir::FloatAttr value) {
    char text[64];
    std::to_chars_result end = std::to_chars(text, text + sizeof text, value.getValueAsDouble());
    llvm::StringRef digits(text, end.ptr - text);
    size_t exponent = std::min(digits.find('e'), digits.size());
    printer << digits.take_front(exponent);
    if (!digits.contains('.')) printer << ".0";
    printer << digits.drop_front(exponent);
}
} // namespace tessera

namespace tessera::graph {
mlir::ParseResult parseRule(mlir::OpAsmParser &parser, mlir::Attribute &init, mlir::Type &type) {
    if (mlir::failed(parser.parseOptionalKeyword("init"))) return parser.parseColonType(type);
    mlir::TypedAttr rule;
    if (parser.parseEqual() || parser.parseAttribute(rule)) return mlir::failure();
    init = rule;
    type = rule.getType();
    if (!llvm::isa<mlir::NoneType>(type)) return mlir::success();
    return parser.emitError(parser.getCurrentLocation(), "expected ':' and the tensor's type");
}
void printRule(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Attribute init,
               mlir::Type type) {
    if (init) { // the rule may lack the type: `{init = #tessera.constant<0.0>} : tensor<4xf32>`
        printer << "init = ";
        printer.printAttributeWithoutType(init);
        printer << ' ';
    }
    printer << ": " << type;
}

mlir::ParseResult parseInitial(mlir::OpAsmParser &parser, mlir::Attribute &init,
                               mlir::ElementsAttr &data, mlir::Type &type) {
    if (mlir::failed(parser.parseOptionalKeyword("data"))) return parseRule(parser, init, type);
    if (parser.parseEqual() || parser.parseAttribute(data)) return mlir::failure();
    type = data.getType();
    return mlir::success();
}
void printInitial(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute init,
                  mlir::ElementsAttr data, mlir::Type type) {
    if (data)
        printer << "data = " << data;
    else
        printRule(printer, op, init, type);
}

} // namespace tessera::graph

#include "compiler/graph_dialect.cpp.inc"
#include "compiler/graph_enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/graph_attrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/graph_types.cpp.inc"

namespace tessera::graph {
// `<` dim {`,` dim} `>`; a dim is a symbol, or a string.
mlir::Attribute DimsAttr::parse(mlir::AsmParser &parser, mlir::Type) {
    llvm::SmallVector<mlir::StringAttr> dims;
    auto parseDim = [&]() -> mlir::ParseResult {
        char canonical[TSR_SHIM_DIM_TEXT_MAX];
        const char *error = nullptr;
        std::string text;
        llvm::SMLoc loc = parser.getCurrentLocation();
        if (parser.parseKeywordOrString(&text)) return mlir::failure();
        if (text != "?" && !tsr_dim_canonicalize(text.data(), text.size(), canonical, &error))
            return parser.emitError(loc) << "'" << text << "' is not a dim: " << error;
        dims.push_back(mlir::StringAttr::get(parser.getContext(), text == "?" ? text : canonical));
        return mlir::success();
    };
    if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::LessGreater, parseDim))
        return {};
    return get(parser.getContext(), dims);
}

void DimsAttr::print(mlir::AsmPrinter &printer) const {
    printer << '<';
    llvm::interleaveComma(getDims(), printer,
                          [&](mlir::StringAttr dim) { printer.printKeywordOrString(dim); });
    printer << '>';
}

mlir::LogicalResult
DimsAttr::verifyEncoding(llvm::ArrayRef<int64_t> shape, mlir::Type,
                         llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const {
    size_t open = llvm::count_if(shape, mlir::ShapedType::isDynamic);
    if (open == getDims().size()) return mlir::success();
    return emitError() << "the shape has " << open << " dims '?', #tessera.dims has "
                       << getDims().size();
}

namespace {
mlir::OpFoldResult fold(mlir::Operation *op, mlir::ArrayRef<mlir::Attribute> operands) {
    llvm::SmallVector<MlirAttribute> constants;
    for (mlir::Attribute operand : operands) constants.push_back(wrap(operand));
    MlirAttribute attr = {nullptr};
    MlirValue value = {nullptr};
    if (!tsr_graph_fold_op(wrap(op), constants.data(), constants.size(), &attr, &value)) return {};
    if (attr.ptr) return unwrap(attr);
    return unwrap(value);
}
} // namespace

#define TSR_FOLD_PLAIN(Class)
#define TSR_FOLD_VALUE(Class)                                                                      \
    mlir::OpFoldResult Class::fold(FoldAdaptor adaptor) {                                          \
        return ::tessera::graph::fold(getOperation(), adaptor.getOperands());                      \
    }
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    TSR_VERIFY(Class, tsr_graph_verify_op)                                                         \
    TSR_FOLD_##KIND(Class)
#include "compiler/graph/ops.def"
#undef X

// ---- dotted ops: compiler/resilience/ops.def ----

// Replaces the op by one with its canonical name and the same operands, attributes and regions.
static mlir::LogicalResult rename(mlir::Operation *op, llvm::StringRef name,
                                  mlir::PatternRewriter &rewriter) {
    mlir::OperationState state(op->getLoc(), name);
    state.addOperands(op->getOperands());
    state.addTypes(op->getResultTypes());
    state.addAttributes(op->getAttrs());
    for (size_t i = 0; i < op->getNumRegions(); i++) state.addRegion();
    mlir::Operation *made = rewriter.create(state);
    for (size_t i = 0; i < op->getNumRegions(); i++)
        rewriter.inlineRegionBefore(op->getRegion(i), made->getRegion(i), made->getRegion(i).end());
    rewriter.replaceOp(op, made->getResults());
    return mlir::success();
}

// Casts operands to the result's element type first.
static mlir::LogicalResult rename(TileGemmOp op, llvm::StringRef name,
                                  mlir::PatternRewriter &rewriter) {
    mlir::Type element = op.getType().getElementType();
    for (mlir::OpOperand &operand : op->getOpOperands()) {
        auto type = llvm::cast<mlir::RankedTensorType>(operand.get().getType());
        if (type.getElementType() == element) continue;
        mlir::Value wide =
            CastOp::create(rewriter, op.getLoc(), type.clone(element), operand.get());
        rewriter.modifyOpInPlace(op, [&] { operand.set(wide); });
    }
    return rename(op.getOperation(), name, rewriter);
}

#define TSR_DOTTED_SR(Class, canonical)
#define TSR_DOTTED_ALONE(Class, canonical) TSR_VERIFY(Class, tsr_sr_verify_op)
#define TSR_DOTTED_TESSERA(Class, canonical)                                                       \
    TSR_VERIFY(Class, tsr_sr_verify_op)                                                            \
    mlir::LogicalResult Class::canonicalize(Class op, mlir::PatternRewriter &rewriter) {           \
        return rename(op, tsr_op_text(TSR_##canonical), rewriter);                                 \
    }
#define X(ID, name, DIALECT, Class, check, canonical) TSR_DOTTED_##DIALECT(Class, canonical)
#include "compiler/resilience/ops.def"
#undef X

// Does the text at `at`, which begins with a brace, begin a dictionary (and not a region)? An entry
// has `=` or `,` after its name; a lone name, or an empty dictionary, is followed by the region's
// brace.
static bool isDictionary(const char *at) {
    auto skip = [&at] {
        for (; *at; at++) {
            if (at[0] == '/' && at[1] == '/') {
                while (*at && *at != '\n') at++;
                if (!*at) return;
            } else if (!llvm::isSpace(*at)) {
                return;
            }
        }
    };
    if (*at != '{') return false;
    at++;
    skip();
    if (*at == '"') {
        for (at++; *at && *at != '"'; at++)
            if (*at == '\\' && at[1]) at++;
        if (*at) at++;
    } else {
        while (llvm::isAlnum(*at) || *at == '_' || *at == '$' || *at == '.') at++;
    }
    skip();
    if (*at == '=' || *at == ',') return true;
    if (*at != '}') return false;
    at++;
    skip();
    return *at == '{';
}

// {dictionary}? {region}; the text is NUL-terminated (tsr_shim_parse).
static mlir::ParseResult parseDictionaryAndBody(mlir::OpAsmParser &parser,
                                                mlir::OperationState &state) {
    mlir::Region *body = state.addRegion();
    if (isDictionary(parser.getCurrentLocation().getPointer()) &&
        parser.parseOptionalAttrDict(state.attributes))
        return mlir::failure();
    return parser.parseRegion(*body);
}

static void printDictionaryAndBody(mlir::OpAsmPrinter &printer, mlir::Operation *op) {
    printer.printOptionalAttrDict(op->getAttrs());
    printer << ' ';
    printer.printRegion(op->getRegion(0), false, true);
}

mlir::ParseResult ScheduleCheckpointOp::parse(mlir::OpAsmParser &parser,
                                              mlir::OperationState &state) {
    if (parseDictionaryAndBody(parser, state)) return mlir::failure();
    return parser.parseOptionalColonTypeList(state.types);
}
void ScheduleCheckpointOp::print(mlir::OpAsmPrinter &printer) {
    printDictionaryAndBody(printer, *this);
    if (getNumResults() > 0) printer << " : " << getResultTypes();
}

mlir::ParseResult EffectsSuspendOp::parse(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    if (parseDictionaryAndBody(parser, state)) return mlir::failure();
    return parser.parseOptionalColonTypeList(state.types);
}
void EffectsSuspendOp::print(mlir::OpAsmPrinter &printer) {
    printDictionaryAndBody(printer, *this);
    if (getNumResults() > 0) printer << " : " << getResultTypes();
}

mlir::ParseResult ResilienceRegionOp::parse(mlir::OpAsmParser &parser,
                                            mlir::OperationState &state) {
    if (parseDictionaryAndBody(parser, state)) return mlir::failure();
    return parser.parseColonTypeList(state.types);
}
void ResilienceRegionOp::print(mlir::OpAsmPrinter &printer) {
    printDictionaryAndBody(printer, *this);
    printer << " : " << getOperation()->getResultTypes();
}

mlir::Type TesseraDialect::parseType(mlir::DialectAsmParser &parser) const {
    llvm::SMLoc loc = parser.getCurrentLocation();
    llvm::StringRef mnemonic;
    mlir::Type type;
    if (mlir::succeeded(parser.parseOptionalKeyword("res.token")))
        return sr::TokenType::get(getContext());
    mlir::OptionalParseResult result = generatedTypeParser(parser, &mnemonic, type);
    if (result.has_value()) return type;
    parser.emitError(loc) << "dialect tessera has no type '" << mnemonic << "'";
    return {};
}

void TesseraDialect::printType(mlir::Type type, mlir::DialectAsmPrinter &printer) const {
    (void)generatedTypePrinter(type, printer);
}

void TesseraDialect::initialize() {
    addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/graph_types.cpp.inc"
        >();
    addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/graph_attrs.cpp.inc"
        >();
    registerTesseraDialectOperations(this);
    addInterfaces<Inliner>();
}

mlir::Operation *TesseraDialect::materializeConstant(mlir::OpBuilder &builder,
                                                     mlir::Attribute value, mlir::Type type,
                                                     mlir::Location location) {
    auto elements = llvm::dyn_cast<mlir::ElementsAttr>(value);
    if (!elements || elements.getType() != type) return nullptr;
    return ConstantOp::create(builder, location, type, elements);
}
} // namespace tessera::graph

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tessera, tessera, tessera::graph::TesseraDialect)

const char *tsr_shim_op_form(MlirStringRef name) {
    using namespace tessera::graph;
    return llvm::StringSwitch<const char *>(unwrap(name))
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    .Case(Class::getOperationName(), Class::formText.data())
#include "compiler/graph/ops.def"
#undef X
        .Default(nullptr);
}

size_t tsr_shim_dims_count(MlirAttribute attr) {
    auto dims = llvm::dyn_cast<tessera::graph::DimsAttr>(unwrap(attr));
    return dims ? dims.getDims().size() : 0;
}

MlirAttribute tsr_shim_dims_get(MlirAttribute attr, size_t index) {
    return wrap(llvm::cast<mlir::Attribute>(
        llvm::cast<tessera::graph::DimsAttr>(unwrap(attr)).getDims()[index]));
}

MlirAttribute tsr_shim_dims_make(MlirContext context, size_t count, const MlirAttribute *dims) {
    llvm::SmallVector<mlir::StringAttr> list;
    for (size_t i = 0; i < count; i++)
        list.push_back(llvm::cast<mlir::StringAttr>(unwrap(dims[i])));
    return wrap(tessera::graph::DimsAttr::get(unwrap(context), list));
}

bool tsr_shim_is_opt_state(MlirType type) {
    return llvm::isa<tessera::graph::OptStateType>(unwrap(type));
}

bool tsr_shim_opt_attr(MlirAttribute attr, const char **out_mnemonic, MlirAttribute *out_text,
                       MlirAttribute *out_mesh) {
    auto set = [&](llvm::StringLiteral mnemonic, mlir::StringAttr text) {
        *out_mnemonic = mnemonic.data();
        *out_text = wrap(llvm::cast<mlir::Attribute>(text));
        return true;
    };
    using namespace tessera::graph;
    return llvm::TypeSwitch<mlir::Attribute, bool>(unwrap(attr))
        .Case([&](OptShardAttr a) {
            if (a.getMesh()) *out_mesh = wrap(a.getMesh());
            return set(a.getMnemonic(), a.getAxis());
        })
        .Case([&](OptPartitionAttr a) { return set(a.getMnemonic(), a.getPolicy()); })
        .Case([&](OptOffloadAttr a) { return set(a.getMnemonic(), a.getMemory()); })
        .Default([](mlir::Attribute) { return false; });
}

size_t tsr_shim_graph_attr(MlirAttribute attr, const char **out_mnemonic,
                           double out_parameters[TSR_SHIM_PARAMETERS_MAX]) {
    auto set = [&](llvm::StringLiteral mnemonic, std::initializer_list<mlir::FloatAttr> values) {
        size_t count = 0;
        *out_mnemonic = mnemonic.data();
        for (mlir::FloatAttr value : values) out_parameters[count++] = value.getValueAsDouble();
        return count;
    };
    using namespace tessera::graph;
    return llvm::TypeSwitch<mlir::Attribute, size_t>(unwrap(attr))
        .Case([&](UniformAttr a) {
            return set(a.getMnemonic(), {a.getLow(), a.getHigh()});
        })
        .Case([&](NormalAttr a) {
            return set(a.getMnemonic(), {a.getMean(), a.getDeviation()});
        })
        .Case([&](ConstantAttr a) { return set(a.getMnemonic(), {a.getValue()}); })
        .Case([&](AdamWAttr a) {
            return set(a.getMnemonic(),
                       {a.getLr(), a.getBeta1(), a.getBeta2(), a.getEps(), a.getWeightDecay()});
        })
        .Case([&](SgdAttr a) {
            return set(a.getMnemonic(), {a.getLr(), a.getMomentum(), a.getWeightDecay()});
        })
        .Case([&](NesterovAttr a) {
            return set(a.getMnemonic(), {a.getLr(), a.getMomentum(), a.getWeightDecay()});
        })
        .Default([](mlir::Attribute) { return size_t{0}; });
}
