# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common, ops, and completion."""

import shutil
import subprocess
import unittest

import program


class CommandsTest(program.ProgramTest):
    def test_usage_errors_end_with_2(self):
        for args in ([], ["nothing"], ["records"], ["records", "ls"], ["records", "head", "f", "-n", "x"],
                     ["records", "head", "f", "--at=-1"], ["completion", "tcsh"], ["ops", "--what"]):
            result = self.run_program(*args, code=2)
            self.assertTrue(result.err.startswith("millrace: "), result.err)
            self.assertIn("--help", result.err)
            self.assertEqual(self.run_json(*args, code=2)["error"]["code"], "Invalid argument")

    def test_help_is_no_error(self):
        out = self.run_program("--help").out
        for word in ("checkpoint", "records", "Exit code 0"):
            self.assertIn(word, out)
        self.assertIn("--at", self.run_program("records", "head", "--help").out)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            process = subprocess.run([program.PROGRAM, "ops"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(process.returncode, 1)


class OpsTest(program.ProgramTest):
    def test_shows_one_op(self):
        out = self.run_program("ops", "MatMul").out
        self.assertIn("MatMul(a: T, b: T) -> (product: T)", out)
        self.assertRegex(out, r"transpose_a +bool = false")
        self.assertRegex(out, r"CPU: T .*float")
        self.assertIn("product of two matrices", out)
        self.assertRegex(self.run_program("--version").out, r"^millrace \d+\.\d+\.\d+\n$")
        for name, text in (("ResourceScatterAdd", "Adds to rows of a resource variable"), ("ReluGrad", "gradient of Relu"),
                           ("QueueDequeueV2", "Removes an element")):
            self.assertIn(text, self.run_json("ops", name)["ops"][0]["summary"])
        op = self.run_json("ops", "MatMul")["ops"][0]
        self.assertEqual(op["inputs"], [{"name": "a", "type": "T"}, {"name": "b", "type": "T"}])
        self.assertIn("float", [t for k in op["kernels"] for t in k["types"].get("T", [])])
        self.assertEqual(op["gradient"], "yes")

    def test_lists_ops(self):
        ops = self.run_json("ops")["ops"]
        names = [op["name"] for op in ops]
        self.assertEqual(names, sorted(names))
        self.assertGreater(len(names), 400)
        self.assertIn(f"{len(names)} ops", self.run_program("ops").out)
        self.assertIn("MatMul", self.run_program("ops", "Mat*").out)
        self.assert_error(["ops", "matmul"], 1, "MatMul")


class CompletionTest(program.ProgramTest):
    def complete(self, *words):
        """What bash offers for the last word."""
        quoted = " ".join(f"'{w}'" for w in words)
        script = (f'source <("{program.PROGRAM}" completion bash); COMP_WORDS=({quoted}); '
                  f'COMP_CWORD={len(words) - 1}; _millrace; printf "%s\\n" "${{COMPREPLY[@]}}"')
        process = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, timeout=60, check=True)
        return sorted(process.stdout.decode().splitlines())

    def test_bash(self):
        self.assertEqual(self.complete("millrace", "rec"), ["records"])
        self.assertEqual(self.complete("millrace", "records", ""), ["count", "head", "index", "ls", "verify"])
        self.assertEqual(self.complete("millrace", "records", "head", "--comp"), ["--compression"])
        self.assertEqual(self.complete("millrace", "records", "head", "--compression", "g"), ["gzip"])
        self.assertEqual(self.complete("millrace", "completion", ""), ["bash", "fish", "zsh"])
        self.write("a file", b"")
        self.assertEqual(self.complete("millrace", "records", "ls", "a"), ["a file"])
        self.assertIn("ops", self.complete("millrace", ""))

    def test_every_command_and_option_is_in_each_script(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.run_program("completion", shell).out
            for word in ("checkpoint", "convert", "scalars", "smooth", "gzip", "atol"):
                self.assertIn(word, script, shell)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_reads_its_script(self):
        self.write("s", self.run_program("completion", "zsh").out)
        subprocess.run(["zsh", "-n", self.path("s")], check=True)

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish_offers_words(self):
        self.write("s", self.run_program("completion", "fish").out)
        process = subprocess.run(["fish", "-c", f"source {self.path('s')}; complete -C 'millrace records h'"],
                                 capture_output=True, check=True)
        self.assertIn(b"head", process.stdout)


if __name__ == "__main__":
    unittest.main()
