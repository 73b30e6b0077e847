/** A slow GET and, without waiting, POST with `Expect: 100-continue` and its body on one connection: is each answer whole and in its place? */
import type { AttackOrder, AttackOutcome } from './orders.ts'
import { openSocket } from './sockets.ts'

const RUN_MS = 2_000
/** What both answers lack when the second has begun comes at once or never. */
const REST_MS = 100

export async function continueRace(order: AttackOrder): Promise<AttackOutcome> {
  const count = { runs: 0, broken: 0 }
  let left = order.times ?? 0
  const deadline = Date.now() + order.ms
  const lane = async (): Promise<void> => {
    while (left > 0 && Date.now() < deadline) {
      left -= 1
      const sound = isSound(await run(order.port, order.head))
      count.runs += 1
      if (!sound) count.broken += 1
    }
  }
  await Promise.all(Array.from({ length: order.connections }, lane))
  return count
}

/** Everything that came back. */
function run(port: number, head: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = openSocket(port)
    let text = ''
    const end = (): void => void socket.destroy()
    const timer = setTimeout(end, RUN_MS)
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (isSound(text)) end()
      else if (/HTTP\/1\.1 200[^]*HTTP\/1\.1 200/.test(text)) setTimeout(end, REST_MS)
    })
    socket.on('end', end)
    socket.once('close', () => {
      clearTimeout(timer)
      resolve(text)
    })
    socket.write(head)
  })
}

/** The two final answers, one after the other, and the interim one, if there is one, before the second. */
function isSound(text: string): boolean {
  const first = answerAt(text, 0)
  if (first?.status !== 200 || first.body !== 'ok') return false
  let second = answerAt(text, first.end)
  if (second?.status === 100) second = answerAt(text, second.end)
  return second?.status === 200 && second.end === text.length
}

function answerAt(text: string, at: number) {
  const bodyAt = text.indexOf('\r\n\r\n', at) + 4
  const head = text.slice(at, bodyAt)
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1] ?? NaN)
  if (bodyAt < 4 || Number.isNaN(status)) return undefined
  const end = bodyAt + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  return end > text.length ? undefined : { status, end, body: text.slice(bodyAt, end) }
}
