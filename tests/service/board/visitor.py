"""A browser without a screen: it keeps cookies, follows redirects of its own choice, and sends forms."""

import re
from http.cookies import SimpleCookie
from urllib.parse import urlencode

CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Visitor:
    """Asks for pages as one person; `client` is of `serving`."""

    def __init__(self, client):
        self.client, self.cookies = client, {}

    def get(self, path, headers=()):
        return self._keep(self.client("GET", path, None, self._headers() | dict(headers)))

    def csrf(self, path):
        """The value that the forms of a page carry."""
        found = CSRF.search(self.get(path).body.decode())
        assert found, path
        return found[1]

    def post(self, path, fields, *, csrf=None, headers=(), kind="application/x-www-form-urlencoded"):
        """Send a form; `csrf` is a page that has one, or the value itself."""
        value = self.csrf(csrf) if csrf is not None and csrf.startswith("/") else csrf
        sent = dict(fields) if value is None else {**fields, "csrf": value}
        known = self._headers() | {"Content-Type": kind} | dict(headers)
        return self._keep(self.client("POST", path, urlencode(sent).encode(), known))

    def sign_in(self, token, wanted="/"):
        return self.post("/sign-in", {"token": token, "next": wanted}, csrf="/sign-in")

    def _headers(self):
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}

    def _keep(self, answer):
        for value in answer.headers.get_all("Set-Cookie") or []:
            for name, morsel in SimpleCookie(value).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return answer
