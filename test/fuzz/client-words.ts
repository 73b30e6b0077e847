/** The words of the client's grammar: what is right, odd or wrong in each place of a request. */

// prettier-ignore
export const METHODS = [
  'get', 'TRACE', 'CONNECT', 'PRI', 'BREW', '', 'G ET', 'GET\t', '\0GET', 'PROPFIND', 'M-SEARCH',
  'GE\xe9T', 'POST ', 'QUERY',
]

// prettier-ignore
export const TARGETS = [
  '/v1/../v1/pets', '/v1/pets/..', '/v1/./pets', '/v1/pets/%2e%2e/x', '/v1/%2E/pets',
  '/v1/pets%2f7', '/v1/pets%5C7', '/v1/pets%00', '/v1/pets/%', '/v1/pets/%4', '/v1/pets/%zz',
  '/v1//pets', '//v1/pets', '/v1/pets//', '/v1/pets\\7', '/v1/pets#x', '/v1/pets?a#b',
  '/v1/pets?a=%', '/v1/pets;x=1', '/v1/..;/pets', '/v1/%70ets', '/v1/pets/%252e',
  '/v1/pets/%c0%af', '/v1/pets/%ff', '/v1/pets/\xe9', '/v1/pets/a b', '/v1/pets/\t',
  '/v1/pets/\x7f', '/v1/pets/<x>', '/v1/pets?q=a|b[c]{d}^`"', '', '*', '?x', 'v1/pets',
  'api.example:80', 'http://api.example/v1/pets/abs', 'HTTP://API.EXAMPLE/v1/pets/abs',
  'http://evil.example/v1/pets', 'https://api.example/v1/pets', 'http://api.example',
  'http://api.example?x', 'http://user@api.example/v1/pets', 'http://api.example/v1/../x',
  'http://[', 'http:///v1/pets', 'ftp://api.example/v1/pets', '/', '/v1', '/v1/', '/V1/pets',
  '/v2/pets', '/v1pets', '/v1/pets/', '/v1/pets/%20', '/v1/pets/%C3%A9', '/v1/pets?', '/v1/pets??',
  '/v1/pets?x=//../%2e', '/v1/pets/...', '/v1/.pets', '/v1/pets/..x', '/v1/pets/%2e%2e%2fx',
  '/v1/%2570ets', '/v1/;/pets', '/v1/pets/.%2e',
]

// prettier-ignore
export const VERSIONS = [
  'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/01.1', 'HTTP/1.10', 'http/1.1', 'HTTP/1',
  'HTTP/1.1 ', 'HTTP/1.1\t', '', 'HTTP/1,1', 'HTTPS/1.1', 'ICE/1.0', 'RTSP/1.0',
  'HTTP/1.1 HTTP/1.1',
]

// prettier-ignore
export const GAPS = [
  '  ', '\t', '', ' \t', '\x0b', '\r', '\n', '\xa0', '\0',
]

// prettier-ignore
export const LINE_ENDS = [
  '\n', '\r', '\r\r\n', '\n\n', ' \r\n', '\r\n\n', '\r \n', '\0\r\n', '\r\n ', '\r\n\t', '\n\r\n',
]

// prettier-ignore
export const LINES = [
  'X-One : a', 'X One: a', ': a', 'X-One', 'X-One: a\0b', 'X-One: a\x01b', 'X-One: a\x7f',
  'X-One: a\rb', 'X-One: a\nb', 'X-One: a\r', '\tX-One: a', ' X-One: a', 'X-\xe9: a', 'X(One): a',
  'X-One:', 'X-One:\t a \t', 'X-Probe: caf\xe9', 'X-Probe-2:a', 'X-One: a\r\n b',
  'X-One: a\r\n\tb', 'X-One:\r\n b', 'X-One: a\r\n \r\n', '=: a', '"X": a', 'X-One: a\x0bb',
  'X-One: "\\\r\n"', 'GET /v1/pets/inner HTTP/1.1', '\x00', 'X-One;: a', 'X-One: \xff',
  "!#$%&'*+.^_`|~: a",
]

// prettier-ignore
export const FRAMING = [
  'Content-Length: 0', 'Content-Length: 5', 'content-length:5', 'Content-Length: 05',
  'Content-Length: +5', 'Content-Length: -1', 'Content-Length: 0x5', 'Content-Length: 5, 5',
  'Content-Length: 5,6', 'Content-Length: 5 ', 'Content-Length: 5 5', 'Content-Length:',
  'Content-Length: 5;', 'Content-Length: "5"', 'Content-Length: 1e1', 'Content-Length: \xb2',
  'Content-Length: 18446744073709551621', 'Content-Length: 00000000000000000000005',
  'Content-Length: 5.0', 'Content-Length : 5', 'Content_Length: 5', 'Content.Length: 5',
  'Content-Length\t: 5', 'Content-Length:\x0b5', 'Content-Length:\r\n 5',
  'X: y\r\n Content-Length: 5', 'Transfer-Encoding: chunked', 'transfer-encoding:CHUNKED',
  'Transfer-Encoding: Chunked ', 'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, gzip', 'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: identity', 'Transfer-Encoding: identity, chunked', 'Transfer-Encoding:',
  'Transfer-Encoding: "chunked"', 'Transfer-Encoding: chunked;q=1', 'Transfer-Encoding: xchunked',
  'Transfer-Encoding: chunked\0', 'Transfer-Encoding:\x0bchunked', 'Transfer-Encoding: ,chunked',
  'Transfer-Encoding: chunked,', 'Transfer-Encoding : chunked', 'Transfer_Encoding: chunked',
  'Transfer.Encoding: chunked', 'Transfer-Encoding\r\n : chunked',
  'Transfer-Encoding:\r\n chunked', 'Transfer-Encoding: \xa0chunked',
  'X: y\r\n Transfer-Encoding: chunked', 'X: y\nTransfer-Encoding: chunked',
  'X: y\rTransfer-Encoding: chunked', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity',
]

// prettier-ignore
export const HOSTS: readonly (readonly string[])[] = [
  [], ['Host: api.example', 'Host: api.example'], ['Host: api.example', 'Host: evil.example'],
  ['Host:'], ['Host: a.example, b.example'], ['Host: a.example/evil'], ['Host: user@a.example'],
  ['Host : a.example'], ['Host_: a.example'], ['Host: a.example:x'], ['Host: a.example:99999999'],
  ['Host: [::1]:80'], ['Host: [::1'], ['Host: a b'], ['Host: a%20b'], ["Host: a!b'(c)"],
  ['Host: a#b'], ['Host: a?b'], ['Host: a\\b'], ['Host: \xe9'], ['host:api.example'],
  ['HOST:\tapi.example '], ['Host: api.example:'], ['Host: api.example:8080'],
  ['Host: API.example'], ['Host:\r\n api.example'],
]

// prettier-ignore
export const SIZES = [
  '-3', '+3', '0x3', ' 3', '3 ', '3\t', '3;', '3 ;a', '3;a b', '3;a="', '3;a="b\\"c"', '3;a=b;c',
  '3;\xe9', '3;a\nb', '3;a\rb', '', 'g', '3g', '3\n', '3\r', '03', '000000000000003',
  '10000000000000003', 'ffffffffffffffff', 'fffffff', '80000000', '3,3', '3;a=\0', '2', '4',
  '3;' + 'a'.repeat(2_000),
]

// prettier-ignore
export const CHUNK_BODIES = [
  '3\r\nabcd\r\n0\r\n\r\n', '3\r\nab\r\n0\r\n\r\n', '3\r\nabc0\r\n\r\n', '3\r\nabc\n0\r\n\r\n',
  '3\nabc\r\n0\r\n\r\n', '3\r\nabc\r\n0\r\n\n', '3\r\nabc\r\n0\n\r\n', '3\r\nabc\r\n0\r\n',
  '3\r\nabc\r\n', '3\r\nab', '0\r\n\r\n0\r\n\r\n', '0\r\nX-Probe: a\r\n\r\n',
  '0\r\nX-Client-Id: evil\r\nContent-Length: 5\r\n\r\n', '0\r\nTransfer-Encoding: chunked\r\n\r\n',
  '0\r\nbad trailer\r\n\r\n', '0\r\nX: a\r\n b\r\n\r\n', '0\r\nX : a\r\n\r\n',
  '0\r\nX: a\0\r\n\r\n', '0\r\n: a\r\n\r\n', '0\r\n\r', '00\r\n\r\n', '0;a=b\r\n\r\n',
  '\r\n0\r\n\r\n', '3\r\nabc\r\n\r\n0\r\n\r\n', '3\r\n\r\nabc0\r\n\r\n', '0\r\rX\r\n\r\n',
  '1000\r\n' + 'x'.repeat(4096) + '\r\n1\r\ny\r\n0\r\n\r\n', '3\rabc\r0\r\r',
]

// prettier-ignore
export const CREDENTIALS = [
  '', 'Bearer', 'Bearer ', 'Basic dTpw', 'Bearer tg_wrong', 'bearer KEY', 'BEARER  KEY',
  'Bearer\tKEY', 'Bearer KEY ', 'Bearer KEY x', 'Bearer "KEY"', 'Bearer KEY,', 'Bearer KEY=',
  'KEY', 'Token KEY', 'Bearer KEY\0', 'Bearer constructor', 'Bearer a.b.c',
  'Bearer ' + 'a'.repeat(300), 'Bearer EXPIRED', 'Bearer KEY\r\nAuthorization: Bearer KEY',
  'Bearer KEY\r\nAuthorization: Bearer tg_wrong', 'Bearer KEY\r\n x', 'Bearer KEY, Bearer KEY',
]

/** Sound, and each with its own meaning between the client and the gateway. */
// prettier-ignore
export const WORDS = [
  'Connection: close', 'Connection: keep-alive', 'Connection: X-Probe',
  'Connection: close, X-Probe', 'Connection: X-Client-Id, X-Request-Id', 'Connection: Host',
  'Connection: Authorization', 'Connection: Content-Length', 'Connection: Transfer-Encoding, TE',
  'Connection: , ,', 'Connection: Upgrade', 'Connection:', 'Connection: CLOSE',
  'Connection: x-close', 'Expect: 100-continue', 'Expect: 100-Continue', 'Expect: 200-maybe',
  'Expect:', 'Expect: 100-continue, x', 'Upgrade: h2c', 'Upgrade: websocket',
  'Upgrade: websocket\r\nConnection: Upgrade',
  'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__',
  'X-Client-Id: evil', 'x-client-plan: enterprise', 'X_Client_Id: evil', 'X.Client.Id: evil',
  'X-Client-Extra: evil', 'X-Request-Id: evil', 'X-Forwarded-For: 10.0.0.1',
  'X-Forwarded-Host: evil', 'X-Forwarded-Proto: https', 'Forwarded: for=evil', 'Via: 1.1 evil',
  'X-Real-IP: evil', 'X-RateLimit-Remaining: 7', 'RateLimit: evil',
  'Proxy-Authorization: Bearer evil', 'Proxy: evil', 'X-Original-URL: /v1/evil',
  'X-Rewrite-URL: /v1/evil', 'TE: trailers', 'Trailer: X-Probe', 'Keep-Alive: timeout=5',
  'Accept-Encoding: gzip', 'Cookie: a=b', 'Range: bytes=0-1', 'X-Probe: a, b', 'x-probe-3: "c"',
  'X-Probe:', 'X-HTTP-Method-Override: DELETE', 'If-None-Match: *',
]

/** In front of a request. */
// prettier-ignore
export const BEFORE = [
  '\r\n', '\r\n\r\n', '\n', '\r', ' ', '\0', '0\r\n\r\n', 'x', '\r\n ', '\xef\xbb\xbf',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'EHLO x\r\n',
  'GET /v1/pets\r\n',
]
