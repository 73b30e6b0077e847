/**
 * The checks in the order of the report: group, name, keys, the rule that it tests, and the source of the rule. keys: how many keys it is
 * run with at once, which no other check uses; 0: with one that no check counts; last: it sends nothing, and judges the answers to all callers.
 */

const text = `
isolation | isolation | 2 | What one key uses takes nothing from another. | contract 4.1
admission | exact | 1 | One after the other as many requests of a key are admitted in a minute as its limit says. | contract 4.1
admission | concurrent | 3 | At once, over ten connections, as many are admitted as one after the other. | contract 4.3
admission | methods | 1 | HEAD and OPTIONS are charged like GET. | contract 4.2
windows | reset | 1 | A used up minute stays so until Reset (which may be rounded up), and ends there. | contract 5
windows | edge | 2 | Around the end of a minute each of the two minutes admits its limit, and no more. | contract 4.1
windows | retry-after | 2 | Who waits for Retry-After is admitted, and waits no second too long. | RFC 9110 10.2.3; RFC 6585 4
refused | refused-free | 2 | A refused request is charged in no window, and the wait does not grow. | contract 4.2
day | day | 1 | The day falls by one for each admitted request, and admits its limit. | contract 4.1, 5
headers | remaining | 1 | Remaining is the limit less what the minute has admitted, this request included. | contract 5
headers | limit | last | Limit, and q of RateLimit-Policy, are limits of the plan. | contract 5
headers | reset-fixed | last | Reset does not move within a minute. | contract 5
headers | fields | last | RateLimit and RateLimit-Policy are Lists of named windows with their numbers. | RFC 9651 3.1, 4.2
headers | agree | last | X-RateLimit fields say the same as one window of RateLimit. | contract 5
headers | on-429 | last | A 429 says when to come back, and that nothing remains until then. | RFC 9110 10.2.3; contract 6
responses | on-401 | 0 | Without a valid key the answer is 401, with a challenge in WWW-Authenticate. | RFC 9110 11.6.1, 15.5.2
responses | same-401 | 0 | An unknown key and a malformed one get the same body, which tells nothing of keys. | contract 3
responses | error-body | last | The body of a 401 or 429 is JSON, and says so with its charset. | contract 6; RFC 9110 8.3
responses | request-id | last | Each answer has an X-Request-Id of its own. | contract 5
responses | lifecycle | last | Deprecation, Sunset and Link are well formed, and the sunset is the later one. | RFC 9745 2.1, 4; RFC 8594 3
framing | cl-te | 0 | With Content-Length and Transfer-Encoding it is refused, or answered once and closed. | RFC 9112 6.1
framing | two-lengths | 0 | Two different Content-Lengths are refused. | RFC 9112 6.3
framing | unknown-coding | 0 | A body whose last transfer coding is not chunked is refused. | RFC 9112 6.3
framing | blank-colon | 0 | White space between a field name and its colon is refused. | RFC 9112 5.1
framing | obs-fold | 0 | A folded field line is refused, or read as one line. | RFC 9112 5.2
framing | bare-lf | 0 | Lines that end with LF alone are refused, or are lines. | RFC 9112 2.2
framing | chunk-lf | 0 | A chunk line that ends with LF alone hides no request. | RFC 9112 7.1
framing | chunk-extension | 0 | Chunk extensions are ignored, and the next request is the next one. | RFC 9112 7.1.1
framing | pipelined | 0 | A body that looks like a request is a body; the request behind it is answered. | RFC 9112 6.2, 9.3.2
framing | two-hosts | 0 | Two Host fields are refused. | RFC 9112 3.2
`

export const rules = text
  .trim()
  .split('\n')
  .map((line) => {
    const [group = '', name = '', keys = '', rule = '', source = ''] = line.split(' | ')
    return { group, name, keys, rule, source }
  })
export const groupNames = [...new Set(rules.map(({ group }) => group))]
