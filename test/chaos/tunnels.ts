/** A WebSocket of a client that says a few things, hears each of them back, and goes. */
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { answered } from './answers.ts'
import { bodyOf } from './bodies.ts'
import type { ChaosRequest, Outcome } from './events.ts'
import { keyOf } from './world.ts'

const WORDS = 5
const EVERY_MS = 200

export function talk(url: string, { number, client }: ChaosRequest): Promise<Outcome> {
  const word = (at: number): string => bodyOf(number, 50 * at)
  return new Promise((resolve) => {
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${keyOf(client)}` } })
    let upgrade: IncomingMessage | undefined
    let [said, heard] = [0, 0]
    let areOwn = true
    const timer = setInterval(() => {
      if (socket.readyState === WebSocket.OPEN && said < WORDS) socket.send(word(++said))
    }, EVERY_MS)
    const end = (outcome: Outcome): void => {
      clearInterval(timer)
      resolve(outcome)
    }
    const cut = (cause: string): void =>
      end({ kind: 'cut', status: upgrade === undefined ? undefined : 101, cause })
    socket.on('upgrade', (response) => (upgrade = response))
    socket.on('message', (data: Buffer) => {
      if (data.toString('latin1') !== word(++heard)) areOwn = false
      if (heard === WORDS) socket.close(1000)
    })
    socket.on('unexpected-response', (_, response) => {
      let text = ''
      response.setEncoding('latin1').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => end(answered(response, { isOwn: false, body: text })))
      response.on('error', ({ message }) => cut(message))
    })
    socket.on('error', ({ message }) => cut(message))
    socket.on('close', (code) => {
      if (upgrade === undefined || heard < WORDS) return cut(`closed with ${code}`)
      end(answered(upgrade, { isOwn: areOwn, body: '' }))
    })
  })
}
