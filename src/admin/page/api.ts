/** Calls of the admin API. The token is kept here, in memory, and nowhere else. */

interface Said {
  readonly status: number
  readonly code?: string
  readonly message?: string
  readonly problems?: readonly string[]
}
export interface How {
  readonly method?: string
  readonly body?: object
}

export class Fault extends Error {
  readonly path: string
  /** What the gateway has said; undefined: no answer has come. */
  readonly said: Said | undefined

  constructor(path: string, message: string, said?: Said) {
    super(message)
    this.path = path
    this.said = said
  }
}

const READ_WITHIN_MS = 10_000
const CHANGE_WITHIN_MS = 60_000
/** Longest wait that a refused operation may ask for and get, without a word to the operator. */
const LONGEST_WAIT_MS = 2_000

let token: string | undefined
let askForToken = (_refused: boolean): Promise<string | undefined> => Promise.resolve(undefined)
/** One question for a token, which all calls that need one wait for. */
let asked: Promise<string | undefined> | undefined

/** Set after the operator has cancelled: calls made by the page itself do not ask again. */
let isDeclined = false
export const askAgain = () => void (isDeclined = false)

/** ask: resolves to undefined after a cancel. refused: the previous token was not accepted. */
export const onTokenNeeded = (ask: typeof askForToken) => void (askForToken = ask)

/** repeats: how often it is asked again where the gateway says that it can answer in a moment */
async function ask(
  path: string,
  how: How & { readonly signal: AbortSignal },
  repeats = 4,
): Promise<Response> {
  const { method = 'GET', body, signal } = how
  const sent = token
  const headers: Record<string, string> = {}
  if (sent !== undefined) headers['authorization'] = `Bearer ${sent}`
  if (body !== undefined) headers['content-type'] = 'application/json'
  const init: RequestInit = { method, headers, signal, cache: 'no-store', credentials: 'omit' }
  if (body !== undefined) init.body = JSON.stringify(body)
  // The path is relative, as a proxy may show the listener below a path of its own.
  const response = await fetch(path.slice(1), init).catch((error: unknown) => {
    if (signal.aborted && (signal.reason as Error).name !== 'TimeoutError') throw error
    const why = signal.aborted ? 'did not answer in time' : 'cannot be reached'
    throw new Fault(path, `The gateway ${why}.`)
  })
  if (response.ok) return response
  const waitMs = Number(response.headers.get('retry-after') ?? Infinity) * 1_000
  if (response.status === 429 && repeats > 0 && waitMs <= LONGEST_WAIT_MS) {
    await new Promise((resolve) => setTimeout(resolve, waitMs))
    return ask(path, how, repeats - 1)
  }
  const said = (await response.json().catch(() => ({}))) as Omit<Said, 'status'>
  if (response.status === 401 && !isDeclined) {
    if (token === sent) token = await (asked ??= askForToken(sent !== undefined))
    asked = undefined
    isDeclined = token === undefined
    if (token !== undefined) return ask(path, how, repeats)
  }
  const missing = response.status === 404 && said.code === 'not_found'
  const message = missing ? 'This gateway has no such operation.' : said.message
  const { status } = response
  throw new Fault(path, message ?? `The gateway answered ${status}.`, { ...said, status })
}

/** JSON of an answer; `Answer` is by the shapes in src/insight/api. */
export async function call<Answer>(path: string, how: How = {}): Promise<Answer> {
  const withinMs = how.method === undefined ? READ_WITHIN_MS : CHANGE_WITHIN_MS
  const response = await ask(path, { ...how, signal: AbortSignal.timeout(withinMs) })
  return (await response.json()) as Answer
}

/** Reads server-sent events through fetch, as an EventSource sends no token. Ends with the stream, or throws. */
export async function stream(
  path: string,
  onEvent: (event: string, data: unknown) => void,
  signal: AbortSignal,
) {
  const { body } = await ask(path, { signal })
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = (text + value).split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const [, event = '', data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? []
      if (data !== undefined) onEvent(event, JSON.parse(data))
    }
  }
}
