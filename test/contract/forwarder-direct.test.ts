import { createDirectEngine } from '../../src/core/forwarding/direct/engine.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('direct', createDirectEngine)
