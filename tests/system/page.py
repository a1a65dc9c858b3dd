"""page.py - the web page as tallyd serves it: right headers, the same bytes in both forms, nothing
from elsewhere; and what a build without it says."""

import gzip
import os
import re
import threading

import tallyd
import web

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
API_POLICY = "default-src 'none'; frame-ancestors 'none'"
FIRST_LOAD_MAX = 150 * 1024
BUTTON_MAX = 10 * 1024
DRAWN_AT_ONCE = "chart-"  # the feed shows one beside the posts, where there is room for it


class Page(tallyd.Case):
    flags = ()

    def setUp(self):
        self.serving = self.server("--workers", "1", *self.flags)
        self.web = web.Web(self.serving.http_port)
        self.addCleanup(self.web.close)
        if b"has no web page" in self.page().body:
            self.skipTest("this build has no page: tools/page.sh makes it")

    def ask(self, path, method="GET", **headers):
        return self.web.ask(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def page(self, **headers):
        return self.ask("/", Accept=BROWSER, **headers)

    def named(self):
        """What index.html asks for, as paths."""
        return re.findall(r'(?:src|href)="([^"]+)"', self.page().body.decode())

    def test_a_browser_gets_the_page_and_others_the_index(self):
        page = self.page()
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(page.headers["content-security-policy"], POLICY)
        self.assertEqual(page.headers["vary"], "Accept, Accept-Encoding")
        self.assertEqual(page.headers["cache-control"], "no-cache")
        self.assertIn(b'<div id="root">', page.body)
        for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}, {"Accept": "text/html;q=0"}):
            index = self.ask("/", **headers)
            self.assertEqual(index.json["openapi"], "/openapi.json")
            self.assertEqual(index.headers["content-security-policy"], API_POLICY)
            self.assertEqual(index.headers["vary"], "Accept")

    def test_the_server_says_where_the_page_is(self):
        self.serving.wait_message(rf"open in a browser: http://127\.0\.0\.1:{self.serving.http_port}/$")

    def loaded_at_once(self):
        """What a browser asks for to show the feed: what index.html names, the parts that its script fetches at once
        by itself, and what those are made of."""
        paths = self.named()
        for path in paths:  # grows as it is walked
            if not path.endswith(".js"):
                continue
            text = self.ask(path).body.decode()
            imported = re.findall(r'(?:from|import)"\./([\w.-]+)"', text)
            fetched = [name for name in re.findall(r'"(?:\./)?([\w-]+\.(?:js|css))"', text) if name.startswith(DRAWN_AT_ONCE)]
            paths += {f"/page/{name}" for name in imported + fetched}.difference(paths)
        return paths

    def test_all_it_names_is_here_and_the_first_load_is_small(self):
        paths = self.loaded_at_once()
        self.assertGreaterEqual(len(self.named()), 4, paths)
        self.assertEqual(len([path for path in paths if DRAWN_AT_ONCE in path]), 2, paths)  # a script and its look
        size = len(self.page(Accept_Encoding="gzip").body)
        for path in paths:
            self.assertTrue(path.startswith("/page/"), path)
            answer = self.ask(path, Accept_Encoding="gzip")
            self.assertEqual(answer.status, 200, path)
            size += len(answer.body)
        self.assertLess(size, FIRST_LOAD_MAX, paths)

    def test_the_button_is_small(self):
        button = self.ask("/tally.js", Accept_Encoding="gzip")
        self.assertEqual(button.headers["content-encoding"], "gzip")
        self.assertLess(len(button.body), BUTTON_MAX)

    def test_nothing_is_inline(self):
        text = self.page().body.decode()
        self.assertEqual(re.findall(r"<script[^>]*>[^<]+</script>", text), [])
        self.assertEqual(re.findall(r"<style|\sstyle=|\son\w+=", text), [])

    def test_both_forms_are_the_same_bytes(self):
        for path in (*self.named(), "/page/index.html", "/tally.js"):
            with self.subTest(path):
                plain = self.ask(path)
                small = self.ask(path, Accept_Encoding="gzip, deflate, br")
                self.assertNotIn("content-encoding", plain.headers)
                for answer in (plain, small):
                    self.assertEqual(answer.headers["vary"], "Accept-Encoding")
                    self.assertEqual(int(answer.headers["content-length"]), len(answer.body))
                unpacked = small.body
                if small.headers.get("content-encoding") == "gzip":
                    unpacked = gzip.decompress(small.body)
                    self.assertLess(len(small.body), len(plain.body))
                self.assertEqual(unpacked, plain.body)
                self.assertEqual(plain.headers["etag"], small.headers["etag"])
        script = next(path for path in self.named() if re.search(r"index-.*\.js$", path))
        self.assertEqual(self.ask(script, Accept_Encoding="gzip").headers["content-encoding"], "gzip")

    def test_what_has_a_hash_in_its_name_is_kept_for_ever_and_the_rest_is_asked_for(self):
        for path in self.named():
            is_fixed = re.search(r"-[\w-]{8}\.\w+$", path)
            self.assertEqual(self.ask(path).headers["cache-control"],
                             "public, max-age=31536000, immutable" if is_fixed else "no-cache", path)

    def test_who_has_it_is_told_so(self):
        for path, accept in (("/", BROWSER), ("/page/theme.js", "*/*"), ("/tally.js", "*/*")):
            first = self.ask(path, Accept=accept)
            again = self.ask(path, Accept=accept, If_None_Match=first.headers["etag"])
            self.assertEqual((again.status, again.body), (304, b""))
            self.assertEqual(again.headers["etag"], first.headers["etag"])
            self.assertEqual(again.headers["cache-control"], first.headers["cache-control"])
            other = self.ask(path, Accept=accept, If_None_Match='W/"0"')
            self.assertEqual((other.status, other.body), (200, first.body))

    def test_a_head_has_no_body(self):
        for path in ("/", "/page/theme.js", "/tally.js"):
            whole = self.ask(path, Accept=BROWSER)
            head = self.ask(path, method="HEAD", Accept=BROWSER)
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.headers["content-length"], str(len(whole.body)))
            self.assertEqual(head.headers["etag"], whole.headers["etag"])

    def test_what_is_not_there_is_a_problem(self):
        for path in ("/page/nothing.js", "/page/..%2Findex.html", "/page/index.html%00", "/page/",
                     "/page/a/b", "/page/INDEX.HTML"):
            with self.subTest(path):
                answer = self.ask(path)
                self.assertIn(answer.status, (400, 404))
                self.assertEqual(answer.headers["content-security-policy"], API_POLICY)
        self.assertEqual(self.ask("/page/index.html", method="POST").status, 405)

    def test_every_site_may_run_the_button(self):
        button = self.ask("/tally.js", Origin="https://blog.example")
        self.assertEqual(button.status, 200)
        self.assertEqual(button.headers["cross-origin-resource-policy"], "cross-origin")
        self.assertEqual(button.headers["content-type"], "text/javascript; charset=utf-8")
        self.assertRegex(button.headers["cache-control"], r"^public, max-age=\d{2,4}$")
        self.assertEqual(self.ask("/page/theme.js").headers["cross-origin-resource-policy"], "same-origin")

    def test_what_it_takes_may_be_said_twice(self):
        with web.Raw(self.serving.http_port) as raw:
            raw.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nAccept: */*\r\n"
                     b"Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n\r\n")
            answer = raw.read()
            self.assertEqual(answer.status, 200)
            self.assertIn(b'<div id="root">', gzip.decompress(answer.body))

    def test_a_video_may_be_called_page(self):
        self.assertEqual(self.web.put("/v1/items/page/reactions/ann").status, 200)
        self.assertEqual(self.ask("/page/count").json["likeCount"], 1)

    def test_who_asks_for_much_at_once_gets_it_in_order_and_does_not_fill_the_memory(self):
        script = next(path for path in self.named() if re.search(r"index-.*\.js$", path))
        size = len(self.ask(script).body)
        before = self.resident()
        with web.Raw(self.serving.http_port) as raw:
            request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % script.encode()
            sender = threading.Thread(target=raw.send, args=(request * 400,))  # a hundred MB of answers
            sender.start()
            self.assertEqual(self.ask("/livez").status, 200)
            self.assertLess(self.resident() - before, 16 << 20)
            for _ in range(400):
                answer = raw.read()
                self.assertEqual((answer.status, len(answer.body)), (200, size))
            sender.join()

    def resident(self):
        with open(f"/proc/{self.serving.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Locked(tallyd.Case):
    def test_the_page_is_open_and_what_it_asks_for_is_not(self):
        server = self.server(env={"TALLY_PASSWORD": "sesame"})
        stranger = web.Web(server.http_port)
        self.addCleanup(stranger.close)
        self.assertEqual(stranger.get("/", Accept=BROWSER).status, 200)
        self.assertEqual(stranger.get("/page/index.html").status, 200)
        self.assertIn(stranger.get("/tally.js").status, (200, 404))
        self.assertEqual(stranger.get("/v1/status").status, 401)


class NoPage(tallyd.Case):
    def test_a_build_without_the_page_says_so_and_what_to_do(self):
        server = tallyd.Server("--workers", "1", program=os.environ["NO_PAGE"]).start()
        self.addCleanup(server.remove)
        client = web.Web(server.http_port)
        self.addCleanup(client.close)
        page = client.get("/", Accept=BROWSER)
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(page.headers["content-security-policy"], POLICY)
        for words in (b"has no web page", b"Node.js", b"TALLY_NO_PAGE", b"make build", b"/openapi.json"):
            self.assertIn(words, page.body)
        button = client.get("/tally.js")
        self.assertEqual(button.status, 404)
        self.assertIn("without its page", button.json["detail"])
        self.assertEqual(client.get("/").json["name"], "tally")
        self.assertNotIn("open in a browser", server.said)


if __name__ == "__main__":
    tallyd.main()
