/** Parses Lists of Items as strictly as RFC 9651 section 4.2 says. Inner lists, bytes and dates are refused: rate limits do not use them. */

interface Item {
  readonly value: string | number
  readonly parameters: ReadonlyMap<string, string | number>
}

const bare = String.raw`-?\d{1,15}(?:\.\d{1,3})?|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&'*+.^|~\w:/\x60-]*|\?[01]`
const parameter = String.raw`; *([a-z*][a-z0-9_\-.*]*)(?:=(${bare}))?`
const unnamed = parameter.replace(/\((?!\?)/g, '(?:')
const item = `(?:${bare})(?:${unnamed})*`
const list = new RegExp(`^${item}(?:[ \\t]*,[ \\t]*${item})*$`)
const items = new RegExp(`(${bare})((?:${unnamed})*)[ \\t]*(?:,[ \\t]*|$)`, 'gy')

const valueOf = (text: string): string | number =>
  /^[-\d]/.test(text) ? Number(text) : text.replace(/^"|"$|\\(.)/g, '$1')

/** undefined: the text is no List. */
export function parseList(text: string): readonly Item[] | undefined {
  if (!list.test(text)) return undefined
  return Array.from(text.matchAll(items), ([, value = '', more = '']) => ({
    value: valueOf(value),
    parameters: new Map(
      Array.from(more.matchAll(new RegExp(parameter, 'gy')), ([, key = '', of = '?1']) => [
        key,
        valueOf(of),
      ]),
    ),
  }))
}
