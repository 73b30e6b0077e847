/** Reads a stream of events (text/event-stream, WHATWG HTML 9.2). */
export async function* eventsIn(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ readonly type: string; readonly data: string }> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const bytes of body) {
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n\r?\n/)
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = Array.from(block.matchAll(/^(event|data): ?(.*?)\r?$/gm))
      const data = fields.filter(([, name]) => name === 'data').map(([, , value]) => value)
      const type = fields.find(([, name]) => name === 'event')?.[2] ?? 'message'
      // An event without data is a comment that keeps the connection open.
      if (data.length > 0) yield { type, data: data.join('\n') }
    }
  }
}
