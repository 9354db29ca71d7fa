// Every behaviour of upstream's delegate tests, and its measured defects as things that work here.

#include "hammock/jit/to_backend.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "ir/expect_error.h"
#include "jit/toy_delegate.h"

namespace hammock::jit {
namespace {

using Floats = std::vector<float>;
using Calls = std::vector<std::string>;

std::string TempFile(const std::string& name) {
  return ::testing::TempDir() + std::to_string(getpid()) + "_" + name;
}

/// accum, sub_accum and, of both, forward; `scale` is a parameter.
struct Basic : Module {
  Basic() : Module("Basic") {
    scale = register_parameter("scale", tensor({2.0, 2.0}));
    define("accum(Tensor x, Tensor h) -> Tensor", &Basic::accum);
    define("sub_accum(Tensor x, Tensor h) -> Tensor", &Basic::sub_accum);
    define("forward(Tensor x, Tensor h) -> Tuple(Tensor, Tensor)", &Basic::forward);
    define("with_default(Tensor x, int k=3, *, float z=0.5) -> Tensor", &Basic::with_default);
    define("other(Tensor x) -> Tensor", &Basic::other);
    for (const char* method : {"accum", "sub_accum", "forward"})
      trace(method, {ones({2}), ones({2})});
    trace("with_default", {ones({2})});
    trace("other", {ones({2})});
  }
  Tensor accum(const Tensor& x, const Tensor& h) { return x + h; }
  Tensor sub_accum(const Tensor& x, const Tensor& h) { return (x - h) * scale; }
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& h) {
    return {accum(x, h), sub_accum(x, h)};
  }
  Tensor with_default(const Tensor& x, int64_t k, double z) { return x * (double(k) + z); }
  Tensor other(const Tensor& x) { return x.exp(); }
  Tensor scale;
};

class ToBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    toy_available = true;
    call_log.Take();
  }
  Basic basic_;
  Tensor x_ = tensor({1.0, 2.0}), h_ = tensor({10.0, 20.0});
};

TEST_F(ToBackend, RunsMethodsByTheDelegateWithTheResultsOfTheOriginal) {
  ModulePtr lowered = to_backend(
      "toy", basic_, {{"accum", AnyDict()}, {"sub_accum", AnyDict()}, {"forward", AnyDict()}});
  call_log.Take();
  EXPECT_EQ(lowered->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(), (Floats{11, 22}));
  EXPECT_EQ(lowered->run_method("sub_accum", {x_, h_}).ToTensor().to_vector<float>(),
            (Floats{-18, -36}));
  Any both = lowered->run_method("forward", {x_, h_});
  EXPECT_EQ(both.kind(), Any::Kind::kTuple);
  EXPECT_EQ(both.ToList()[0].ToTensor().to_vector<float>(), (Floats{11, 22}));
  EXPECT_EQ(both.ToList()[1].ToTensor().to_vector<float>(), (Floats{-18, -36}));
  EXPECT_EQ(call_log.Take(), (Calls{"execute", "execute", "execute"}))
      << "availability is not asked for at each call";
}

TEST_F(ToBackend, GoesThroughTheLifeCycleInUpstreamsOrder) {
  ModulePtr lowered = to_backend("toy", basic_, {{"accum", AnyDict()}});
  EXPECT_EQ(call_log.Take(),
            (Calls{"preprocess", "create", "is_available", "is_available", "compile"}));
  ModulePtr inner = lowered->get_submodule("__loweredModule__");
  for (const char* attribute : {"__processed_module", "__method_compile_spec", "__backend",
                                "__handles", "__backend_debug_info"}) {
    EXPECT_TRUE(inner->attributes().contains(attribute)) << attribute;
  }
  EXPECT_EQ(inner->attribute("__backend").type_name(), "__backends__.toy");
  EXPECT_TRUE(inner->attribute("__handles").ToDict().contains("accum"));
  EXPECT_TRUE(inner->run_method("__is_available").ToBool());
  Any state = inner->run_method("__getstate__");
  EXPECT_EQ(state.ToList().size(), 3u);
  EXPECT_TRUE(state.ToList()[2].ToBool());
  call_log.Take();
  inner->run_method("__setstate__", {state});
  EXPECT_EQ(call_log.Take(), (Calls{"create", "is_available", "compile"}));
  inner->run_method("__create_backend");
  inner->run_method("__create_backend_debug_info");
}

TEST_F(ToBackend, LeavesTheModuleAlone) {
  ModulePtr lowered = to_backend("toy", basic_, {{"sub_accum", AnyDict()}});
  {
    NoGradGuard no_grad;
    basic_.scale += 100.0;
  }
  EXPECT_EQ(lowered->run_method("sub_accum", {x_, h_}).ToTensor().to_vector<float>(),
            (Floats{-18, -36}));
  EXPECT_NE(basic_.method("sub_accum").body, nullptr);
}

TEST_F(ToBackend, ParametersAndOtherMethodsStayVisible) {
  ModulePtr lowered = to_backend("toy", basic_, {{"accum", AnyDict()}});
  EXPECT_EQ(lowered->named_parameters().size(), 1u);
  EXPECT_EQ(lowered->get_tensor("scale").to_vector<float>(), (Floats{2, 2}));
  EXPECT_NEAR(lowered->run_method("other", {zeros({2})}).ToTensor().to_vector<float>()[0], 1, 1e-6);
  lowered->set_attribute("added", 5);
  EXPECT_EQ(lowered->attribute("added").ToInt(), 5);
}

TEST_F(ToBackend, KeepsPositionalAndKeywordDefaults) {
  ModulePtr lowered = to_backend("toy", basic_, {{"with_default", AnyDict()}});
  EXPECT_EQ(lowered->run_method("with_default", {x_}).ToTensor().to_vector<float>(),
            (Floats{3.5, 7}));
  EXPECT_EQ(
      lowered->run_method("with_default", {x_, 3}, {{"z", 0.5}}).ToTensor().to_vector<float>(),
      (Floats{3.5, 7}));
}

TEST_F(ToBackend, AcceptsAnEmptySpecPerMethodAndAnEmptySpec) {
  EXPECT_NO_THROW(to_backend("toy", basic_, {{"accum", AnyDict()}}));
  EXPECT_NO_THROW(to_backend("toy", basic_, {{"accum", Any()}}));
  ModulePtr nothing = to_backend("toy", basic_, {});
  EXPECT_NO_THROW(nothing->run_method("accum", {x_, h_})) << "what is not lowered stays as it was";
}

TEST_F(ToBackend, ValidatesTheSpecBeforePreprocessingRuns) {
  EXPECT_ERROR(to_backend("toy", basic_, {{"zzz", AnyDict()}}), ValueError,
               "Method 'zzz' is not defined.");
  EXPECT_ERROR(to_backend("nobody", basic_, {{"accum", AnyDict()}}), ValueError,
               "Preprocessing function for backend nobody is not registered.");
  backend_preprocess_register("classless", ToyBackend::Preprocess);
  EXPECT_ERROR(to_backend("classless", basic_, {{"accum", AnyDict()}}), ValueError,
               "there is no backend 'classless' of delegates; registered are hammock, reference");
  EXPECT_ERROR(
      to_backend("toy", basic_, {{"accum", AnyDict()}}, {.examples = {{"zzz", {{x_, h_}}}}}),
      ValueError, "Method 'zzz' is not defined.");
  EXPECT_EQ(call_log.Take(), Calls());
}

TEST_F(ToBackend, FindsMissingHandlesWhenItCompiles) {
  EXPECT_ERROR(to_backend("toy", basic_, {{"accum", AnyDict{{"no_handle", true}}}}), CompileError,
               "backend toy compiled no handle for method 'accum', only for: none");
}

TEST_F(ToBackend, WrongOutputsNameWhatWasExpectedAndWhatCame) {
  ModulePtr extra = to_backend("toy", basic_, {{"accum", AnyDict{{"extra", true}}}});
  EXPECT_ERROR(extra->run_method("accum", {x_, h_}), TypeError,
               "backend toy returned 2 values for method 'accum', its schema has 1");
  ModulePtr text = to_backend("toy", basic_, {{"accum", AnyDict{{"text", true}}}});
  EXPECT_ERROR(text->run_method("accum", {x_, h_}), TypeError,
               "accum: must return Tensor, returned str: \"text\"");
}

TEST_F(ToBackend, TracesCodeOnDemand) {
  Module module("Code");
  module.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() + args[0].ToTensor());
  });
  EXPECT_ERROR(to_backend("toy", module, {{"forward", AnyDict()}}), DelegateError,
               "method 'forward' is C++ code, not a graph; trace it on example arguments first");
  ModulePtr lowered = to_backend("toy", module, {{"forward", AnyDict()}},
                                 {.examples = {{"forward", {.args = {Any(x_)}}}}});
  EXPECT_EQ((*lowered)(x_).to_vector<float>(), (Floats{2, 4}));
  EXPECT_NE(module.method("forward").code, nullptr) << "the module keeps its code";
}

/// Two methods that are member functions.
struct Members : Module {
  Members() : Module("Members") {
    define("forward(Tensor x) -> Tensor", &Members::forward);
    define("other(Tensor x) -> Tensor", &Members::other);
  }
  Tensor forward(const Tensor& x) { return x + x; }
  Tensor other(const Tensor& x) { return exp(x); }
};

TEST_F(ToBackend, ExamplesKeepOtherMemberFunctionsRunnable) {
  Members module;
  Any x = tensor({0.0, 0.0});
  ModulePtr lowered =
      to_backend("toy", module, {{"forward", AnyDict()}},
                 {.examples = {{"forward", {.args = {x}}}, {"other", {.args = {x}}}}});
  EXPECT_EQ(lowered->run_method("other", {x}).ToTensor().to_vector<float>(), (Floats{1, 1}));
}

TEST_F(ToBackend, RefusesModulesThatADelegateRuns) {
  ModulePtr lowered = to_backend("toy", basic_, {{"accum", AnyDict()}});
  call_log.Take();
  EXPECT_ERROR(to_backend("toy", *lowered, {{"accum", AnyDict()}}), ValueError,
               "has methods that backend toy runs");
  EXPECT_EQ(call_log.Take(), Calls());
}

/// Throws what is no std::exception from the method that is named.
struct Thrower : BackendInterface {
  static inline std::string method;
  static void Enter(const char* name) {
    if (method == name) throw 42;
  }
  bool is_available() override { return Enter("is_available"), true; }
  AnyDict compile(Any, AnyDict spec) override { return Enter("compile"), spec; }
  AnyList execute(Any, AnyList inputs) override {
    Enter("execute");
    if (method == "undefined") return {Any(Tensor())};
    return {inputs[0]};
  }
};
const backend<Thrower> thrower_class("thrower");
const bool thrower_preprocess = backend_preprocess_register(
    "thrower", [](const Module&, const AnyDict& spec, const DebugHandleGenerator&) {
      Thrower::Enter("preprocess");
      return Any(spec);
    });

TEST_F(ToBackend, WhateverADelegateThrowsIsADelegateError) {
  auto lower = [&] { return to_backend("thrower", basic_, {{"other", AnyDict()}}); };
  const int line = __LINE__ - 1;
  for (const char* method : {"is_available", "compile", "preprocess"}) {
    Thrower::method = method;
    EXPECT_ERROR(lower(), DelegateError, "thrower: an exception that is no std::exception");
    try {
      lower();
    } catch (const DelegateError& error) {
      EXPECT_TRUE(Contains(error.what(), "[at to_backend_test.cpp:" + std::to_string(line)));
    }
  }
  Thrower::method = "";
  ModulePtr lowered = lower();
  Thrower::method = "execute";
  EXPECT_ERROR(lowered->run_method("other", {x_}), DelegateError,
               "thrower: an exception that is no std::exception");
  Thrower::method = "undefined";
  EXPECT_ERROR(lowered->run_method("other", {x_}), TypeError, "returned an undefined tensor");
  Thrower::method = "";
}

TEST_F(ToBackend, UnavailableBackendsWarnSaveAndRaise) {
  toy_available = false;
  LogCapture log;
  ModulePtr lowered = to_backend("toy", basic_, {{"accum", AnyDict()}});
  EXPECT_TRUE(Contains(log.text(),
                       "Backend [toy] is not available. Execution of this Module is "
                       "still possible by saving and loading on a device where the "
                       "backend is available."));
  EXPECT_ERROR(lowered->run_method("accum", {x_, h_}), NotSupported, "Backend is not available.");
  std::string path = TempFile("unavailable.hmk");
  save_module(*lowered, path);
  EXPECT_ERROR(load_module(path), NotSupported, "Backend is not available.");
  toy_available = true;
  EXPECT_EQ(load_module(path)->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(),
            (Floats{11, 22}));
}

TEST_F(ToBackend, SavedModulesAreCompiledAgainWhenTheyAreLoaded) {
  ModulePtr lowered =
      to_backend("toy", basic_, {{"accum", AnyDict{{"note", "kept"}}}, {"sub_accum", AnyDict()}});
  std::string path = TempFile("saved.hmk");
  for (int twice = 0; twice < 2; ++twice) {
    save_module(*lowered, path);
    call_log.Take();
    lowered = load_module(path);
    EXPECT_EQ(call_log.Take(), (Calls{"create", "is_available", "compile"}));
    EXPECT_EQ(lowered->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(),
              (Floats{11, 22}));
    EXPECT_EQ(lowered->run_method("sub_accum", {x_, h_}).ToTensor().to_vector<float>(),
              (Floats{-18, -36}));
    EXPECT_EQ(lowered->get_tensor("scale").to_vector<float>(), (Floats{2, 2}));
    EXPECT_TRUE(Contains(
        lowered->get_submodule("__loweredModule__")->attribute("__method_compile_spec").to_string(),
        "\"note\": \"kept\""));
  }
}

TEST_F(ToBackend, SeveralModulesWithEqualMethodNamesDoNotMix) {
  ModulePtr plus = to_backend("toy", basic_, {{"accum", AnyDict()}});
  Module other("Basic");
  other.define("accum(Tensor x, Tensor h) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(args[0].ToTensor() * args[1].ToTensor());
  });
  other.trace("accum", {x_, h_});
  ModulePtr times = to_backend("toy", other, {{"accum", AnyDict()}});
  auto parent = std::make_shared<Module>("Parent");
  parent->register_module("a", plus);
  parent->register_module("b", times);
  std::string path = TempFile("two.hmk");
  save_module(*parent, path);
  ModulePtr again = load_module(path);
  EXPECT_EQ(again->get_submodule("a")->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(),
            (Floats{11, 22}));
  EXPECT_EQ(again->get_submodule("b")->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(),
            (Floats{10, 40}));
}

TEST_F(ToBackend, TheSameClassServesTwoNames) {
  ModulePtr twin = to_backend("toy_twin", basic_, {{"accum", AnyDict()}});
  EXPECT_EQ(twin->get_submodule("__loweredModule__")->attribute("__backend").type_name(),
            "__backends__.toy_twin");
  EXPECT_EQ(twin->run_method("accum", {x_, h_}).ToTensor().to_vector<float>(), (Floats{11, 22}));
}

TEST(BackendRegistry, HasUpstreamsClassesAndSchemas) {
  const ClassDef* toy = FindClass("__backends__.toy");
  ASSERT_NE(toy, nullptr);
  EXPECT_EQ(toy->FindMethod("is_available")->schema.to_string(), "is_available(Any self) -> bool");
  EXPECT_EQ(
      toy->FindMethod("compile")->schema.to_string(),
      "compile(Any self, Any processed, Dict(str, Any) method_compile_spec) -> Dict(str, Any)");
  EXPECT_EQ(toy->FindMethod("execute")->schema.to_string(),
            "execute(Any self, Any handle, Any[] input) -> Any[]");
  Any object = NewObject("__backends__.toy");
  EXPECT_TRUE(CallMethod(object, "is_available").ToBool());
  for (const char* name : {"__backends__.hammock", "__backends__.reference"}) {
    EXPECT_NE(FindClass(name), nullptr) << name;
  }
}

TEST(BackendRegistry, RefusesSecondRegistrations) {
  EXPECT_ERROR(backend<ToyBackend>("toy"), ValueError, "__backends__.toy is already registered");
  EXPECT_ERROR(backend_preprocess_register("toy", ToyBackend::Preprocess), ValueError,
               "Preprocessing function for backend toy is already registered. Ensure that "
               "registration is only called once.");
  EXPECT_ERROR(backend_preprocess_register("hammock", ToyBackend::Preprocess), ValueError,
               "Preprocessing function for backend hammock is already registered.");
}

TEST(BackendRegistry, IsSafeWithThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 20; ++k) {
        std::string name = "threads_" + std::to_string(100 * i + k);
        backend<ToyBackend>{name};
        backend_preprocess_register(name, ToyBackend::Preprocess);
        EXPECT_NE(FindClass("__backends__." + name), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hammock::jit
