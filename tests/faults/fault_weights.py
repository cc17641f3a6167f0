"""Writes weights as torchvision ships them, of the package's VGG16: `python -m fault_weights FILE`."""

import sys

import torch

from rankbound_study.jobs.vgg16 import N_CLASSES, VGG16, WIDTH

torch.manual_seed(0)
weights = VGG16().state_dict()
weights |= {"classifier.6.weight": torch.zeros(N_CLASSES, WIDTH), "classifier.6.bias": torch.zeros(N_CLASSES)}
torch.save(weights, sys.argv[1])
