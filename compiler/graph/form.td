// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: how ops are written.
#ifndef TSR_GRAPH_FORM_TD
#define TSR_GRAPH_FORM_TD

// The text of an attribute; in brackets if it may be left out.
class Tessera_AttributeText<string name, Attr attribute> {
  string summary = attribute.summary;
  string text = name # !cond(!eq(summary, "unit attribute"): "",
      !eq(summary, "64-bit signless integer attribute"): " = integer",
      !eq(summary, "64-bit integer array attribute"): " = [integer, ...]",
      !eq(summary, "array of integers and expressions"): " = [integer, ...]",
      !eq(summary, "64-bit float attribute"): " = number",
      !eq(summary, "bool attribute"): " = bool",
      !eq(summary, "string attribute"): " = string",
      !eq(name, "optimizer"): " = #optimizer",
      true: " = value");
  bit isOptional = !or(!cast<bit>(attribute.isOptional), !initialized(attribute.defaultValue));
  string value = !if(isOptional, "[" # text # "]", text);
}

// The text of an op, for errors and pages: its operands, attributes and results by their names.
class Tessera_FormText<string mnemonic, string keyword, dag args, dag outs, string resultTypes> {
  list<int> operands = !filter(i, !range(!size(args)), !initialized(!getdagarg<TypeConstraint>(args, i)));
  list<int> attributes = !filter(i, !range(!size(args)), !and(!initialized(!getdagarg<Attr>(args, i)),
      !ne(!getdagname(args, i), keyword)));
  string names = !interleave(!foreach(i, operands, !cond(
      !initialized(!getdagarg<Variadic>(args, i)): "%" # !getdagname(args, i) # "...",
      !initialized(!getdagarg<Optional>(args, i)): "[%" # !getdagname(args, i) # "]",
      true: "%" # !getdagname(args, i))), ", ");
  string values = !interleave(!foreach(i, attributes,
      Tessera_AttributeText<!getdagname(args, i), !getdagarg<Attr>(args, i)>.value), ", ");
  string results = !interleave(!foreach(i, !range(!size(outs)), !cond(
      !initialized(!getdagarg<Variadic>(outs, i)): "%" # !getdagname(outs, i) # "...",
      !initialized(!getdagarg<Optional>(outs, i)): "[%" # !getdagname(outs, i) # "]",
      true: "%" # !getdagname(outs, i))), ", ");
  bit hasOperands = !not(!empty(operands));
  list<int> several = !filter(i, operands,
      !or(!initialized(!getdagarg<Variadic>(args, i)), !initialized(!getdagarg<Optional>(args, i))));
  bit hasOne = !and(!eq(!size(operands), 1), !empty(several));
  string types = !if(hasOne, "type", "(types)");
  string resultText = !if(!eq(!size(outs), 1), "type", "(types)");
  string value = !if(!empty(outs), "", results # " = ") # "tessera." # mnemonic #
      !if(!empty(keyword), "", " " # keyword) # !if(hasOperands, " " # names, "") #
      !if(!empty(attributes), "", " {" # values # "}") # " : " # !cond(
          !not(hasOperands): "type",
          !eq(resultTypes, "Same"): types,
          !eq(resultTypes, "Inferred"): types # " [-> " # resultText # "]",
          true: types # " -> " # resultText);
}

// `form` is the op's text, for errors and pages; `reason` says why it is not that of Tessera_FormOp.
// `example` is a module for the page; without it, the op's first use in the tests is the example.
class Tessera_Op<string mnemonic, list<Trait> traits = []> : Op<Tessera_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
  string form = ?;
  string reason = "";
  string example = "";
  string declarations = "";
  let extraClassDeclaration = "static constexpr ::llvm::StringLiteral formText = R\"(" # form # ")\"; " # declarations;
}

// The form of all ops that have no reason for another: `%r = tessera.op %a, %b {attributes} : (types) -> type`
// (shim/form.hpp). Operands that all have one type need it only once, without parentheses. `resultTypes` is
//   "Same":     each result has the type of the first operand
//   "Inferred": the result types follow from the operands by the op's rule; they may be left out
//   "Declared": the text must have them
// `keyword` is an attribute that is written as a word before the operands.
class Tessera_FormOp<string mnemonic, string resultTypes, list<Trait> traits = [], string keyword = "">
    : Tessera_Op<mnemonic, traits> {
  let hasCustomAssemblyFormat = 1;
  let form = Tessera_FormText<mnemonic, keyword, arguments, results, resultTypes>.value;
  let declarations = "static const ::tessera::Form form;";
  int resultCount = !if(!empty(!filter(i, !range(!size(results)),
      !or(!initialized(!getdagarg<Variadic>(results, i)), !initialized(!getdagarg<Optional>(results, i))))), !size(results), -1);
  int operandCount = !if(!empty(!filter(i, !range(!size(arguments)),
      !or(!initialized(!getdagarg<Variadic>(arguments, i)), !initialized(!getdagarg<Optional>(arguments, i))))),
      !size(!filter(i, !range(!size(arguments)), !initialized(!getdagarg<TypeConstraint>(arguments, i)))), -1);
  let extraClassDefinition = [{
    const ::tessera::Form $cppClass::form = {::tessera::ResultTypes::}] # resultTypes # ", " # operandCount # ", " # resultCount #
    ", \"" # keyword # [{", [](::mlir::Operation *op) { return ::llvm::cast<$cppClass>(op).verifyInvariantsImpl(); }};
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser, ::mlir::OperationState &state) {
      return ::tessera::parseForm(parser, state, form);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) { ::tessera::printForm(printer, *this, form); }
  }];
}

#endif
